package dashboard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Overview is a part of the buckets of a namespace, as JSON.
type Overview struct {
	Rows      []Row      `json:"rows"`
	Ancestors []ancestor `json:"ancestors"`
	Next      string     `json:"next"`
	Scanned   int        `json:"scanned"`
	Done      bool       `json:"done"`
	Damaged   int        `json:"damaged"` // buckets that are left out, because their data are damaged
}

// Bounds of an answer.
const (
	usualRows  = 100
	mostRows   = 1000
	maxPrefix  = 256
	searchTime = 400 * time.Millisecond // of a search on a store that does not bill reads
)

func overview(c *call) (any, error) {
	order, err := c.word("order", "name", "tightest")
	if err != nil {
		return nil, err
	}
	limit, err := c.limit(usualRows, mostRows)
	if err != nil {
		return nil, err
	}
	if len(c.param("prefix")) > maxPrefix {
		return nil, badInput("parameter prefix: must have at most %d bytes", maxPrefix)
	}
	search := strings.ToLower(c.param("search"))
	var o Overview
	if order == "tightest" {
		o, err = c.tightest(limit, search)
	} else {
		o, err = c.byName(limit, search)
	}
	if err != nil {
		return nil, err
	}
	o.Ancestors = c.names.ancestors(c.ctx, o.Rows, c.pace.patience)
	return o, nil
}

// byName returns the next rows by entity and resource. A search goes on until it
// has found enough, or its time is over.
func (c *call) byName(limit int, search string) (Overview, error) {
	o := Overview{Rows: []Row{}, Next: c.param("after")}
	begun := time.Now()
	for {
		size := limit - len(o.Rows)
		if search != "" {
			size = c.pace.page
		}
		page, err := c.page(c.ctx, limiter.BucketQuery{Prefix: c.param("prefix"), After: o.Next, Max: size})
		if err != nil {
			return o, err
		}
		o.Scanned += page.Scanned
		o.Next = page.Next
		o.Damaged += len(page.Damaged)
		rows, err := c.rows(c.ctx, page.Buckets, c.pace.patience)
		if err != nil {
			return o, err
		}
		for _, r := range rows {
			if r.matches(search) {
				o.Rows = append(o.Rows, r)
			}
		}
		if o.Next == "" || len(o.Rows) >= limit || time.Since(begun) > searchTime {
			o.Done = o.Next == ""
			return o, nil
		}
	}
}

// page reads a page of buckets, once for all viewers that want it now.
func (s *space) page(ctx context.Context, q limiter.BucketQuery) (limiter.BucketPage, error) {
	return s.pages.do(ctx, fmt.Sprintf("%d\x00%s\x00%s", q.Max, q.After, q.Prefix), func(ctx context.Context) (limiter.BucketPage, error) {
		page, err := s.pager.BucketPage(ctx, s.now(), q)
		return page, outage(err)
	})
}

// matches reports whether a search in lower case finds a row.
func (r *Row) matches(search string) bool {
	return search == "" || strings.Contains(strings.ToLower(r.Entity), search) || strings.Contains(strings.ToLower(r.Name), search)
}
