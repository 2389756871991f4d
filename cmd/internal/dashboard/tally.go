package dashboard

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// tally counts buckets and keeps the tightest of them.
type tally struct {
	scanned int
	damaged int // buckets that are left out
	top     bucketHeap
	most    int
	// sums has the sum of each limit. It is nil in a tally of all buckets.
	sums map[string]sum
	// overflow reports that there are more limits than sums.
	overflow bool
}

// sum adds up one limit over buckets, in whole tokens.
type sum struct{ capacity, available int64 }

// Bounds of a tally.
const (
	tightestOfAll      = 100
	tightestOfResource = 10
	maxSums            = 100
)

// newTally returns a tally of a resource, or of all buckets under "".
func newTally(resource string) *tally {
	t := &tally{most: tightestOfAll, top: bucketHeap{less: looser}}
	if resource != "" {
		t.most, t.sums = tightestOfResource, map[string]sum{}
	}
	return t
}

// looser reports whether a is less tight than b. Buckets of the same tightness are
// ordered by name.
func looser(a, b limiter.Bucket) bool {
	return cmp.Or(cmp.Compare(tightness(a), tightness(b)), compareBuckets(a, b)) > 0
}

func (t *tally) add(b limiter.Bucket) {
	t.scanned++
	t.top.keep(b, t.most)

	if t.sums == nil {
		return
	}

	for i, l := range b.Account.Limits {
		s, known := t.sums[l.Name]
		if !known && len(t.sums) == maxSums {
			t.overflow = true
			continue
		}
		t.sums[l.Name] = sum{bucket.Add(s.capacity, l.Capacity), bucket.Add(s.available, bucket.Whole(b.Tokens[i]))}
	}
}

func (t *tally) clone() *tally {
	c := *t

	c.top.all = slices.Clone(t.top.all)
	c.sums = maps.Clone(t.sums)
	return &c
}

// tightest returns the rows that have least left, of all buckets scanned so far.
func (c *call) tightest(limit int, search string) (Overview, error) {
	t, done, err := c.scans.of("").await(c.ctx)
	if err != nil {
		return Overview{}, err
	}

	rows, err := c.tightRows(t)
	if err != nil {
		return Overview{}, err
	}

	prefix := c.param("prefix")
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		return !strings.HasPrefix(r.Entity, prefix) || !r.matches(search)
	})

	return Overview{Rows: rows[:min(limit, len(rows))], Scanned: t.scanned, Done: done, Damaged: t.damaged}, nil
}

// tightRows returns the tightest buckets of a tally. It reads them again where
// that costs nothing, since they change while the scan goes on.
func (c *call) tightRows(t *tally) ([]Row, error) {
	buckets := t.top.sorted()

	if !c.billed() && len(buckets) > 0 {
		keys := make([]limiter.Scope, len(buckets))

		for i, b := range buckets {
			keys[i] = limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}
		}

		var err error
		if buckets, _, err = c.bucketsAt(c.ctx, keys); err != nil {
			return nil, outage(err)
		}

		// A bucket may have gone, or changed its place, since the scan passed
		// it.
		buckets = slices.DeleteFunc(buckets, func(b limiter.Bucket) bool { return b.Account == nil })
		slices.SortFunc(buckets, func(a, b limiter.Bucket) int {
			return cmp.Or(cmp.Compare(tightness(a), tightness(b)), compareBuckets(a, b))
		})
	}

	return c.rows(c.ctx, buckets, c.pace.patience), nil
}
