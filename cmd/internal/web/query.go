package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Parameter is a parameter of a query.
type Parameter struct {
	Name, Doc string
	Words     []string // the values that are allowed; nil for any
	Required  bool
	Default   string // for documents, and for [Rules.Whole]
	// Schema is the name of the schema in an OpenAPI document. Without one, Type is
	// the type, which is string by default.
	Schema, Type string
}

// badParameter returns a fault of a parameter.
func badParameter(kind Kind, name, want string) *Fault {
	f := fault(kind, name, "parameter %s: must %s", name, want)
	f.Want = strings.TrimPrefix(want, "be ")
	return f
}

// ParseQuery returns the parameters of a request. It rejects parameters that are not
// known, and known ones that occur twice, are empty, wrong or missing.
func (r *Rules) ParseQuery(req *http.Request, known []Parameter) (url.Values, error) {
	// Most calls have no query, and need no map of one.
	if req.URL.RawQuery == "" && len(known) == 0 {
		return nil, nil //nolint:nilnil // no parameters, as no map has any
	}

	values, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		if err := r.refuse(fault(BadQuery, "", "the query is not valid; escape its values")); err != nil {
			return nil, err
		}
	}

	for name, given := range values {
		if f := r.checkParameter(name, given, known); f != nil {
			if err := r.refuse(f); err != nil {
				return nil, err
			}
		}
	}

	for _, p := range known {
		if p.Required && !values.Has(p.Name) {
			if err := r.refuse(fault(MissingParameter, p.Name, "parameter %s: is missing; it is the %s", p.Name,
				p.Doc)); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// checkParameter returns the fault of a parameter with its values, or nil.
func (r *Rules) checkParameter(name string, given []string, known []Parameter) *Fault {
	i := slices.IndexFunc(known, func(p Parameter) bool { return p.Name == name })
	switch {
	case i < 0:
		return unknownParameter(name, known)
	case len(given) != 1:
		return badParameter(RepeatedParameter, name, "have one value")
	case given[0] == "":
		return badParameter(EmptyParameter, name, "have one value")
	case r.MaxParameter > 0 && len(given[0]) > r.MaxParameter:
		return badParameter(WrongParameter, name, fmt.Sprintf("have at most %d bytes", r.MaxParameter))
	case known[i].Words != nil && !slices.Contains(known[i].Words, given[0]):
		return badParameter(WrongParameter, name, "be "+strings.Join(known[i].Words, " or "))
	}
	return nil
}

func unknownParameter(name string, known []Parameter) *Fault {
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}

	f := fault(UnknownParameter, name, "parameter %q: is unknown; the call has no parameters", Clip(name))
	if f.Want = strings.Join(names, ", "); len(names) > 0 {
		f.Detail = fmt.Sprintf("parameter %q: is unknown; the parameters are %s", Clip(name), f.Want)
	}
	return f
}

// Whole returns a parameter that is a whole number from least to most.
func (r *Rules) Whole(query url.Values, p Parameter, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(cmp.Or(query.Get(p.Name), p.Default), 10, 64)
	if err != nil || n < least || n > most {
		return 0, r.mustRefuse(badParameter(WrongParameter, p.Name,
			fmt.Sprintf("be a whole number from %d to %d", least, most)))
	}
	return n, nil
}
