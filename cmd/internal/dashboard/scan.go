package dashboard

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// scans holds the scans of a namespace: of one resource, or of all buckets under
// "". Viewers share them.
type scans struct {
	s   *space
	mu  sync.Mutex
	all map[string]*scan
}

// scan reads many buckets in the background, and keeps a tally of them. It goes on
// only while viewers ask for it.
type scan struct {
	s        *space
	resource string
	mu       sync.Mutex
	asked    time.Time
	// wanted has room for one token, which says that a viewer asked.
	wanted  chan struct{}
	running bool
	// over is closed when the scan under way is over.
	over chan struct{}
	// current belongs to the scan under way, and complete to the last one that came
	// to its end. It is nil if none did.
	current  *tally
	complete *tally
	// begun is the start of the scan under way, or of the last one.
	begun    time.Time
	finished time.Time
	// err is the error of the last scan.
	err error
}

// Bounds of scans.
const (
	maxScans = 16
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

func newScans(s *space) *scans { return &scans{s: s, all: map[string]*scan{}} }

// of returns the scan of a resource, or of all buckets.
func (s *scans) of(resource string) *scan {
	s.mu.Lock()
	defer s.mu.Unlock()

	one := s.all[resource]
	if one == nil {
		s.makeRoom()
		one = &scan{s: s.s, resource: resource, wanted: make(chan struct{}, 1)}
		s.all[resource] = one
	}

	return one
}

// makeRoom drops the scan that was asked for least recently. It ends by itself.
func (s *scans) makeRoom() {
	if len(s.all) < maxScans {
		return
	}

	oldest, name := time.Time{}, ""
	for resource, one := range s.all {
		one.mu.Lock()
		asked := one.asked
		one.mu.Unlock()
		// The scan of all buckets stays, since the overview opens with it.
		if name == "" && resource != "" || resource != "" && asked.Before(oldest) {
			oldest, name = asked, resource
		}
	}

	delete(s.all, name)
}

// await returns the result of a scan, for which it waits a moment.
func (s *scan) await(ctx context.Context) (*tally, bool, error) {
	if t, done, err := s.result(); done || err != nil {
		return t, done, err
	}

	// The scan yields to calls, and must not yield to those that wait for it.
	s.s.h.gate.leave()
	defer s.s.h.gate.enter()

	s.mu.Lock()
	over := s.over
	s.mu.Unlock()

	timer := time.NewTimer(scanAwait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-ctx.Done():
	}

	return s.result()
}

// result returns a copy of the tally so far, and reports whether it is complete.
// It starts a scan if there is none, or if the last one is too old.
func (s *scan) result() (*tally, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()

	select {
	case s.wanted <- struct{}{}:
	default:
	}

	if s.due() {
		s.current, s.running, s.over, s.begun = newTally(s.resource), true, make(chan struct{}), time.Now()
		if !s.s.h.start(s.run) {
			s.running = false
			close(s.over)
			return nil, false, errClosed
		}
	}

	// An old result says more than the error of the scan that should replace
	// it.
	switch {
	case s.complete != nil:
		return s.complete.clone(), true, nil
	case s.err != nil:
		return nil, false, s.err
	}
	return s.current.clone(), false, nil
}

// due reports whether a scan has to start.
func (s *scan) due() bool {
	if s.running {
		return false
	}

	keep := s.s.pace.scanFor
	// A small store is quick to read, so that new buckets of it show soon.
	if s.complete != nil && s.complete.scanned < s.s.pace.page {
		keep = s.s.pace.smallFor
	}

	// A scan that took a minute is repeated after five, so that a large store
	// is not read without a pause.
	keep = max(keep, scanRest*s.finished.Sub(s.begun))
	if s.err != nil {
		keep = scanRetry
	}

	return s.finished.IsZero() || time.Since(s.finished) > keep
}

// forget makes the last result old.
func (s *scans) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, one := range s.all {
		one.mu.Lock()
		one.finished = time.Time{}
		one.mu.Unlock()
	}
}

// run reads the buckets once.
func (s *scan) run() {
	ctx, cancel := context.WithCancel(s.s.ctx)
	defer cancel()
	begun, n, abandoned := time.Now(), 0, false
	var failure error

	for b, err := range s.buckets(ctx) {
		if err != nil {
			failure = outage(err)
			break
		}

		s.add(b)

		// A scan of one resource has no pages, and rests after as many buckets
		// as a page has.
		if n++; n%s.s.pace.page != 0 {
			continue
		}

		if !s.breathe(ctx, time.Since(begun)) {
			abandoned = true
			break
		}

		begun = time.Now()
	}

	s.finish(failure, abandoned || ctx.Err() != nil)
}

func (s *scan) add(b limiter.Bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.add(b)
}

// finish ends a scan. One that was abandoned leaves no result.
func (s *scan) finish(failure error, abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	close(s.over)

	// Without a time of its end, the next viewer starts another scan.
	if abandoned {
		s.finished = time.Time{}
		return
	}

	s.finished, s.err = time.Now(), failure
	if failure == nil {
		s.complete = s.current
	} else {
		s.s.h.opts.OnError(failure)
	}
}

// breathe lets calls of viewers pass, and rests for as long as the last part took.
// Then it waits while no viewer wants the result, and reports whether one does.
func (s *scan) breathe(ctx context.Context, took time.Duration) bool {
	s.s.h.gate.yield(ctx, scanPatience)

	// A second bounds the rest, since a slow part may be the fault of the read
	// budget.
	timer := time.NewTimer(min(took, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}

	for !s.interesting() {
		timer.Reset(scanPatience)
		select {
		case <-s.wanted:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}

	return true
}

func (s *scan) interesting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.asked) < scanInterest
}

// buckets iterates over the buckets of the scan.
func (s *scan) buckets(ctx context.Context) iter.Seq2[limiter.Bucket, error] {
	if s.resource != "" {
		return s.s.reads.Buckets(ctx, s.s.now(), limiter.Scope{Resource: s.resource})
	}

	return s.s.allBuckets(ctx, s.s.pace.page, func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.damaged += n
	})
}

// allBuckets iterates over all buckets, in pages. It calls damaged with the number
// of buckets that a page leaves out.
func (s *space) allBuckets(ctx context.Context, size int, damaged func(int)) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		q := limiter.BucketQuery{Max: size}
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
