package server

import (
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Rows of a list: how many it has without the parameter limit, and at most.
const defaultRows, maxRows = 100, 1000

var limitParameter = parameter{name: "limit", schema: "Rows", doc: "maximum number of rows, 1 to 1000; default 100"}

// badQuery returns the problem of a parameter.
func badQuery(name, reason string) error {
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: "parameter " + name + ": " + reason}
}

// checkQuery rejects parameters that the route does not have, and parameters that
// occur twice, are empty or missing.
func (c *call) checkQuery(known []parameter) error {
	// Most calls have no query, and need no map of one.
	if c.r.URL.RawQuery == "" && len(known) == 0 {
		return nil
	}

	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &httplimit.Problem{Status: http.StatusBadRequest, Detail: "the query is not valid; escape its values"}
	}

	for name, given := range values {
		i := slices.IndexFunc(known, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return badQuery(strconv.Quote(clip(name)), "is unknown"+knownNames(known))
		case len(given) != 1 || given[0] == "":
			return badQuery(name, "must have one value")
		case known[i].words != nil && !slices.Contains(known[i].words, given[0]):
			return badQuery(name, "must be "+strings.Join(known[i].words, " or "))
		}
	}

	for _, p := range known {
		if p.required && !values.Has(p.name) {
			return badQuery(p.name, "is missing; it is the "+p.doc)
		}
	}

	return nil
}

func knownNames(known []parameter) string {
	if len(known) == 0 {
		return "; the call has no parameters"
	}

	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return "; the parameters are " + strings.Join(names, ", ")
}

func (c *call) param(name string) string { return c.r.URL.Query().Get(name) }

// rows returns the parameter limit.
func (c *call) rows() (int, error) {
	text := c.param("limit")
	if text == "" {
		return defaultRows, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxRows {
		return 0, badQuery("limit", fmt.Sprintf("must be a whole number from 1 to %d", maxRows))
	}
	return n, nil
}

// resource returns the parameter resource, "" for all resources.
func (c *call) resource() (string, error) {
	name := c.param("resource")

	if name == "" || name == jsonview.AllResources {
		return "", nil
	}
	return name, checkResource(name)
}

func checkResource(name string) error {
	return limiter.Request{Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0)}.Validate()
}

// entity returns the entity in the path.
func (c *call) entity() (string, error) {
	id := c.r.PathValue("id")
	return id, limiter.Entity{ID: id}.Validate()
}

// collect returns the rows of a page, shaped as JSON. If there are more, it links to
// the next page, where the parameter named by after has the position of the last row.
func collect[T, A any](
	c *call, rows iter.Seq2[T, error], shape func(T) A, after string, position func(T) string,
) ([]A, error) {
	n, err := c.rows()
	if err != nil {
		return nil, err
	}

	page := []A{}
	for row, err := range jsonview.First(rows, n, func(last T) {
		// Some lists have no position by which to go on.
		if position != nil {
			c.linkNext(after, position(last))
		}
	}) {
		if err != nil {
			return nil, outage("list", err)
		}
		page = append(page, shape(row))
	}

	return page, nil
}

// linkNext adds a link to the next page.
func (c *call) linkNext(name, value string) {
	query := c.r.URL.Query()
	// The other parameters hold for the next page, too.
	query.Set(name, value)
	c.header.Set("Link", "<"+c.r.URL.EscapedPath()+"?"+query.Encode()+`>; rel="next"`)
}

// skipTo drops the rows up to and including the row with the ID after. The rows
// are ordered by ID.
func skipTo[T any](rows iter.Seq2[T, error], after string, id func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			if err == nil && after != "" && id(row) <= after {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
