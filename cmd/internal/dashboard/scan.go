package dashboard

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// A scan reads the buckets of a resource, or all buckets under "", in the
// background. It is a read like any other, which viewers share and whose result
// serves for its life, but they see what it has found so far. It goes on only while
// they ask for it.

// scans holds the scans under way.
type scans struct {
	mu  sync.Mutex
	all map[string]*scan
}

// scan is a scan under way.
type scan struct {
	tally *tally
	asked time.Time // when a viewer last wanted it
}

// Bounds of scans.
const (
	// scanInterest is how long a scan goes on after a viewer asked, and scanPatience
	// how long it then waits for the next one that asks.
	scanInterest = 10 * time.Second
	scanPatience = time.Minute
	// scanRetry is the pause after an error.
	scanRetry = 2 * time.Second
	// scanAwait is how long a call waits for a result.
	scanAwait = 250 * time.Millisecond
	// scanRest is how many times as long as the scan took its result is kept.
	scanRest = 5
)

// errAbandoned ends a scan that no viewer wants. It leaves no result.
var errAbandoned = errors.New("no viewer wants the scan")

// scanned returns the tally of a scan, and reports whether that is complete. It
// waits a moment for the first complete one, and then returns what the scan has
// found so far.
func (s *space) scanned(ctx context.Context, resource string) (t *tally, done bool, err error) {
	one := s.tallies.ask(resource)
	s.scans.want(resource)

	// The scan yields to calls, and must not yield to those that wait for it.
	s.h.gate.leave()
	defer s.h.gate.enter()
	ctx, cancel := context.WithTimeout(ctx, scanAwait)
	defer cancel()

	t, known, err := s.tallies.await(ctx, one, true)
	switch {
	// An old result says more than the error of the scan that should replace
	// it.
	case known:
		return t, true, nil
	case err == nil || errors.Is(err, errAbandoned):
		return s.scans.want(resource), false, nil
	}
	return nil, false, err
}

// want notes that a viewer wants a scan, and returns a copy of its tally so far.
func (s *scans) want(resource string) *tally {
	s.mu.Lock()
	defer s.mu.Unlock()

	one := s.all[resource]
	// The scan has not begun yet, or is just over.
	if one == nil {
		return newTally(resource)
	}

	one.asked = time.Now()
	return one.tally.clone()
}

// wanted reports whether a viewer has asked for a scan lately.
func (s *scans) wanted(one *scan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(one.asked) < scanInterest
}

// update changes the scans under way, or the tally of one.
func (s *scans) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// scan reads buckets once, and returns their tally and its life. It takes longer
// than other reads may, so it ends with the namespace and not with ctx.
func (s *space) scan(_ context.Context, resource string) (*tally, time.Duration, error) {
	one := &scan{tally: newTally(resource), asked: time.Now()}
	s.scans.update(func() { s.scans.all[resource] = one })
	defer s.scans.update(func() { delete(s.scans.all, resource) })

	begun := time.Now()
	n, part := 0, begun
	for b, err := range s.bucketsOf(one, resource) {
		if err != nil {
			if s.ctx.Err() == nil {
				s.h.opts.OnError(outage(err))
			}
			return nil, scanRetry, outage(err)
		}

		s.scans.update(func() { one.tally.add(b) })

		// A scan of one resource has no pages, and rests after as many buckets
		// as a page has.
		if n++; n%s.pace.page != 0 {
			continue
		}
		if !s.breathe(one, time.Since(part)) {
			return nil, 0, errAbandoned
		}
		part = time.Now()
	}

	keep := s.pace.scanFor
	// A small store is quick to read, so that new buckets of it show soon.
	if one.tally.scanned < s.pace.page {
		keep = s.pace.smallFor
	}

	// A scan that took a minute is repeated after five, so that a large store
	// is not read without a pause.
	return one.tally, max(keep, scanRest*time.Since(begun)), nil
}

// breathe lets calls of viewers pass, and rests for as long as the last part took.
// Then it waits while no viewer wants the result, and reports whether one does.
func (s *space) breathe(one *scan, took time.Duration) bool {
	s.h.gate.yield(s.ctx, scanPatience)

	// A second bounds the rest, since a slow part may be the fault of the read
	// budget.
	if pause.For(s.ctx, min(took, time.Second)) != nil {
		return false
	}

	const look = 100 * time.Millisecond
	for end := time.Now().Add(scanPatience); !s.scans.wanted(one); {
		if time.Now().After(end) || pause.For(s.ctx, look) != nil {
			return false
		}
	}

	return s.ctx.Err() == nil
}

// bucketsOf iterates over the buckets of a scan.
func (s *space) bucketsOf(one *scan, resource string) iter.Seq2[limiter.Bucket, error] {
	if resource != "" {
		return s.repo.Buckets(s.ctx, s.now(), limiter.Scope{Resource: resource})
	}
	return s.allBuckets(s.ctx, func(n int) { s.scans.update(func() { one.tally.damaged += n }) })
}

// allBuckets iterates over all buckets, in pages. It calls damaged with the number
// of buckets that a page leaves out.
func (s *space) allBuckets(ctx context.Context, damaged func(int)) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		q := limiter.BucketQuery{Max: s.pace.page}
		for {
			page, err := s.pager.BucketPage(ctx, s.now(), q)
			if err != nil {
				yield(limiter.Bucket{}, err)
				return
			}

			damaged(len(page.Damaged))
			for _, b := range page.Buckets {
				if !yield(b, nil) {
					return
				}
			}

			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// tally counts buckets and keeps the tightest of them.
type tally struct {
	scanned int
	damaged int // buckets that are left out
	top     []limiter.Bucket
	most    int
	// sums has the sum of each limit. It is nil in a tally of all buckets.
	sums map[string]sum
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
	t := &tally{most: tightestOfAll}
	if resource != "" {
		t.most, t.sums = tightestOfResource, map[string]sum{}
	}
	return t
}

// byTightness compares buckets by what they have left, and then by name.
func byTightness(a, b limiter.Bucket) int {
	if c := cmp.Compare(tightness(a), tightness(b)); c != 0 {
		return c
	}
	return compareBuckets(a, b)
}

func (t *tally) add(b limiter.Bucket) {
	t.scanned++
	if i, _ := slices.BinarySearchFunc(t.top, b, byTightness); i < t.most {
		t.top = slices.Insert(t.top, i, b)
		t.top = t.top[:min(len(t.top), t.most)]
	}

	if t.sums == nil {
		return
	}

	for i, l := range b.Account.Limits {
		s, known := t.sums[l.Name]
		if !known && len(t.sums) == maxSums {
			continue
		}
		t.sums[l.Name] = sum{bucket.Add(s.capacity, l.Capacity), bucket.Add(s.available, bucket.Whole(b.Tokens[i]))}
	}
}

func (t *tally) clone() *tally {
	c := *t

	c.top = slices.Clone(t.top)
	c.sums = maps.Clone(t.sums)
	return &c
}

// tightest returns the rows that have least left, of all buckets scanned so far.
func (c *call) tightest(limit int, search string) (Overview, error) {
	t, done, err := c.scanned(c.ctx, "")
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
	buckets := t.top

	if !c.billed() && len(buckets) > 0 {
		keys := make([]limiter.Scope, len(buckets))

		for i, b := range buckets {
			keys[i] = keyOf(b)
		}

		var err error
		if buckets, _, err = c.bucketsAt(c.ctx, keys); err != nil {
			return nil, outage(err)
		}

		// A bucket may have gone, or changed its place, since the scan passed
		// it.
		buckets = slices.DeleteFunc(buckets, func(b limiter.Bucket) bool { return b.Account == nil })
		slices.SortFunc(buckets, byTightness)
	}

	return c.rows(c.ctx, buckets, c.pace.patience), nil
}
