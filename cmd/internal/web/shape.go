package web

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// shape is the form of a JSON value in a request. A nil shape allows any fields.
type shape struct {
	names []string          // the fields of an object, in order
	inner map[string]*shape // of fields that are objects or arrays
	each  *shape            // of the elements of an array
}

// shapeOf returns the shape of the JSON of a Go type, nil for one without fields
// of its own.
func shapeOf(t reflect.Type) *shape {
	switch {
	// limiter.Limit decodes itself, has no tags, and looks at no dollars.
	case t == reflect.TypeFor[limiter.Limit]():
		s := shapeOf(reflect.TypeFor[jsonview.Limit]())
		s.inner["dollars"] = nil
		return s
	case t.Kind() == reflect.Pointer:
		return shapeOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return &shape{each: shapeOf(t.Elem())}
	case t.Kind() != reflect.Struct:
		return nil
	}

	s := &shape{inner: map[string]*shape{}, names: []string{}}
	s.addFields(t)
	return s
}

// addFields adds the fields of a struct, and of the structs that it embeds.
func (s *shape) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.addFields(f.Type)
			continue
		}

		s.names = append(s.names, name)
		s.inner[name] = shapeOf(f.Type)
	}
}

// element returns the shape of an array's elements.
func (s *shape) element() *shape {
	if s == nil {
		return nil
	}
	return s.each
}

// field returns the shape of a field. The fault says that the object has no such
// field, or only one that encoding/json takes for it.
func (s *shape) field(name string) (*shape, *Fault) {
	if s == nil || s.names == nil {
		return nil, nil
	}
	if slices.Contains(s.names, name) {
		return s.inner[name], nil
	}

	want := strings.Join(s.names, ", ")
	f := fault(UnknownField, name, "body: unknown field %s; the fields are %s", strconv.Quote(Clip(name)), want)
	if f.Want = want; want == "" {
		f.Detail = "body: unknown field " + strconv.Quote(Clip(name)) + "; the object has no fields"
	}

	i := slices.IndexFunc(s.names, func(n string) bool { return strings.EqualFold(n, name) })
	if i < 0 {
		return nil, f
	}
	f.Kind = Unusual
	return s.inner[s.names[i]], f
}
