package server

import (
	"iter"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// Rows of a list: how many it has without the parameter limit, and at most.
const defaultRows, maxRows = "100", 1000

var limitParameter = web.Parameter{
	Name: "limit", Schema: "Rows", Default: defaultRows, Doc: "maximum number of rows, 1 to 1000; default 100",
}

func (c *call) param(name string) string { return c.Query.Get(name) }

// rows returns the parameter limit.
func (c *call) rows() (int, error) {
	n, err := rules.Whole(c.Query, limitParameter, 1, maxRows)
	return int(n), err
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
	id := c.Request.PathValue("id")
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
			return nil, web.Outage("list", err)
		}
		page = append(page, shape(row))
	}

	return page, nil
}

// linkNext adds a link to the next page.
func (c *call) linkNext(name, value string) {
	query := c.Request.URL.Query()
	// The other parameters hold for the next page, too.
	query.Set(name, value)
	c.Header.Set("Link", "<"+c.Request.URL.EscapedPath()+"?"+query.Encode()+`>; rel="next"`)
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
