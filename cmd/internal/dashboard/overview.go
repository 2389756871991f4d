package dashboard

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// Overview is a part of the buckets of a namespace, as JSON.
type Overview struct {
	Rows      []Row      `json:"rows"`
	Ancestors []ancestor `json:"ancestors"`
	Next      string     `json:"next"`
	Scanned   int        `json:"scanned"`
	Done      bool       `json:"done"`
	// Damaged counts the buckets that are left out because their data are damaged.
	Damaged int `json:"damaged"`
}

// Bounds of an answer.
const (
	usualRows = 100
	mostRows  = 1000
	maxPrefix = 256
	// searchTime is the time after which a search reads no further page.
	searchTime = 400 * time.Millisecond
	// searchWait is how long a search waits for names.
	searchWait = 3 * time.Second
)

func overview(c *call) (any, error) {
	limit, err := c.limit(usualRows, mostRows)
	if err != nil {
		return nil, err
	}

	if len(c.param("prefix")) > maxPrefix {
		return nil, web.Bad("parameter prefix: must have at most %d bytes", maxPrefix)
	}

	search := strings.ToLower(c.param("search"))

	var o Overview
	if c.param("order") == "tightest" {
		o, err = c.tightest(limit, search)
	} else {
		o, err = c.byName(limit, search)
	}
	if err != nil {
		return nil, err
	}

	// The patience of ancestors is for each generation, and this bound is for
	// all of them.
	ctx, cancel := context.WithTimeout(c.ctx, c.pace.patience)
	defer cancel()
	o.Ancestors = c.ancestors(ctx, o.Rows, c.pace.patience)

	return o, nil
}

// byName returns the next rows by entity and resource. A search goes on until it
// has found enough, or its time is over.
func (c *call) byName(limit int, search string) (Overview, error) {
	o := Overview{Rows: []Row{}}
	at, err := parsePosition(c.param("after"))
	if err != nil {
		return o, err
	}

	begun := time.Now()
	for {
		size := min(limit-len(o.Rows), c.pace.rows)

		// A search keeps few of the buckets that it reads, so that the rows
		// that are missing say nothing about the size.
		if search != "" {
			size = c.pace.page
		}

		page, err := c.pages.get(c.ctx, limiter.BucketQuery{Prefix: c.param("prefix"), After: at.page, Max: size})
		if err != nil {
			return o, err
		}

		o.Damaged += len(page.Damaged)
		buckets := at.rest(page.Buckets)
		rows, unnamed := c.matching(buckets, search, begun.Add(searchWait))
		o.Rows = append(o.Rows, rows...)
		// Each bucket counts in one part alone. Those before the position
		// counted in the part before, and the next part counts those whose name
		// is not known yet.
		o.Scanned += page.Scanned - len(page.Buckets) + len(buckets) - unnamed
		if unnamed > 0 {
			if passed := len(buckets) - unnamed; passed > 0 {
				at.entity, at.resource = buckets[passed-1].Account.Entity, buckets[passed-1].Account.Resource
			}
			o.Next = at.inside()
			return o, nil
		}

		at = position{page: page.Next}

		// A search on a large store may find nothing on many pages, so its time
		// ends the part.
		if o.Done = page.Next == ""; o.Done || len(o.Rows) >= limit || time.Since(begun) > searchTime {
			o.Next = at.String()
			return o, nil
		}
	}
}

// matching returns the rows of buckets that a search in lower case finds. It waits
// for the names of the buckets until the given time. At the first bucket that only
// its name could match, and whose name is not known by then, it stops and returns
// how many buckets it did not judge.
func (c *call) matching(buckets []limiter.Bucket, search string, until time.Time) (rows []Row, unjudged int) {
	if search == "" {
		return c.rows(c.ctx, buckets, c.pace.patience), 0
	}

	labels, off := c.allLabels(c.ctx, c.idsOf(buckets), until), c.off(c.ctx)
	if len(off) > 0 {
		labels = c.withAncestors(c.ctx, labels, c.pace.patience)
	}
	for i, b := range buckets {
		_, known := labels[b.Account.Entity]
		r := newRow(b, labels, off)
		switch {
		case r.matches(search):
			rows = append(rows, r)
		// Its name may match, so the next part has to begin with this bucket.
		case !known:
			return rows, len(buckets) - i
		}
	}

	return rows, 0
}

// readPage returns a page of buckets, and its life.
func (s *space) readPage(ctx context.Context, q limiter.BucketQuery) (limiter.BucketPage, time.Duration, error) {
	page, err := s.pager.BucketPage(ctx, s.now(), q)
	if err != nil {
		return page, 0, outage(err)
	}
	return page, s.pace.pageFor, nil
}

func cursorOf(b limiter.Bucket) string {
	return base64.RawURLEncoding.EncodeToString([]byte(b.Account.Entity + "\x00" + b.Account.Resource))
}

// parseCursor returns the bucket of a cursor, nil for "".
func parseCursor(text string) (*limiter.Bucket, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the start
	}

	raw, err := base64.RawURLEncoding.DecodeString(text)
	entity, resource, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return nil, &limiter.InvalidError{
			Field: "after", Value: web.Clip(text), Reason: "must be the position of an earlier page",
		}
	}

	return &limiter.Bucket{Account: &limiter.Account{Entity: entity, Resource: resource}}, nil
}

// compareBuckets compares buckets by entity, then resource.
func compareBuckets(a, b limiter.Bucket) int { return compareScopes(keyOf(a), keyOf(b)) }

// keyOf returns the key of a bucket.
func keyOf(b limiter.Bucket) limiter.Scope {
	return limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}
}

// matches reports whether a search in lower case finds a row.
func (r *Row) matches(search string) bool {
	return search == "" || strings.Contains(strings.ToLower(r.Entity), search) ||
		strings.Contains(strings.ToLower(r.Name), search)
}
