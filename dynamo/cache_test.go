package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/chain"
)

var errRead = errors.New("the table does not answer")

// keysNamed returns fact keys of these kinds.
func keysNamed(names ...string) (keys []factKey) {
	for _, n := range names {
		keys = append(keys, factKey{ns: "ns", kind: n})
	}
	return keys
}

// source is a table of facts that counts its reads, and can block or fail.
type source struct {
	mu     sync.Mutex
	reads  []string
	err    error
	parent string
	hold   chan struct{}
}

func (s *source) read(keys []factKey) ([]*fact, error) {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var facts []*fact
	for _, k := range keys {
		s.reads = append(s.reads, k.kind)
		facts = append(facts, &fact{place: chain.Place{Parent: s.parent}})
	}
	return facts, s.err
}

// ask looks facts up at a moment.
func (c *cache) ask(s *source, at moment, names ...string) ([]*fact, error) {
	facts, _, err := c.lookup(context.Background(), at, c.life, keysNamed(names...), s.read)
	return facts, err
}

// wantReads checks which facts were read.
func wantReads(t *testing.T, s *source, want ...string) {
	t.Helper()
	if got := fmt.Sprint(s.reads); got != fmt.Sprint(want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestFactsAreReadOnceInTheirLife(t *testing.T) {
	t.Parallel()
	c, s := newCache(time.Minute, 10), &source{}
	now := time.Now()
	for _, age := range []time.Duration{0, time.Second, time.Minute - 1, time.Minute} {
		if _, err := c.ask(s, moment{clock: now.Add(age)}, "a", "b"); err != nil {
			t.Fatal(err)
		}
	}
	wantReads(t, s, "a", "b", "a", "b")
	if c.hits.Load() != 4 || c.misses.Load() != 4 || c.size() != 2 {
		t.Errorf("%d hits, %d misses, size %d, want 4, 4 and 2", c.hits.Load(), c.misses.Load(), c.size())
	}
}

// In a replay the caller's clock advances while the machine's does not.
func TestFactsGetOldByTheCallersClockToo(t *testing.T) {
	t.Parallel()
	c, s := newCache(time.Minute, 10), &source{}
	now := time.Now()
	for _, ms := range []int64{1_000_000, 1_059_999, 1_060_000, 1_000_000} {
		if _, err := c.ask(s, moment{clock: now, now: ms}, "a"); err != nil {
			t.Fatal(err)
		}
	}
	wantReads(t, s, "a", "a")
}

func TestCallersAtOnceReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newCache(time.Minute, 10), &source{hold: make(chan struct{})}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := c.ask(s, moment{clock: time.Now()}, "a", "b"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(s.hold)
		wg.Wait()
		wantReads(t, s, "a", "b")
	})
}

// A read of another fact does not block a hit.
func TestHitsDoNotWaitForReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newCache(time.Minute, 10), &source{}
		if _, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil {
			t.Fatal(err)
		}
		held := &source{hold: make(chan struct{})}
		done := make(chan error)
		go func() { _, err := c.ask(held, moment{clock: time.Now()}, "b"); done <- err }()
		synctest.Wait()
		if _, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil {
			t.Error(err)
		}
		close(held.hold)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A read that overlaps a change may return the old value. It is not kept, and the
// next caller reads again.
func TestReadThatAChangeOvertookIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, old := newCache(time.Minute, 10), &source{parent: "old", hold: make(chan struct{})}
		done := make(chan error)
		go func() { _, err := c.ask(old, moment{clock: time.Now()}, "a"); done <- err }()
		synctest.Wait()
		c.evict(keysNamed("a")...)
		for range 2 {
			facts, err := c.ask(&source{parent: "new"}, moment{clock: time.Now()}, "a")
			if err != nil || facts[0].place.Parent != "new" {
				t.Errorf("facts %v, error %v, want the new one", facts, err)
			}
			if old.hold != nil {
				close(old.hold)
				if err := <-done; err != nil {
					t.Error(err)
				}
				old.hold = nil
			}
		}
	})
}

func TestOldFactsServeWhileTheTableFails(t *testing.T) {
	t.Parallel()
	c, s := newCache(time.Minute, 10), &source{parent: "p"}
	now := time.Now()
	if _, err := c.ask(s, moment{clock: now}, "a"); err != nil {
		t.Fatal(err)
	}
	s.err = errRead
	facts, err := c.ask(s, moment{clock: now.Add(time.Hour)}, "a")
	if err != nil || facts[0].place.Parent != "p" {
		t.Errorf("facts %v, error %v, want the old one", facts, err)
	}
	if _, err := c.ask(s, moment{clock: now}, "b"); !errors.Is(err, errRead) {
		t.Errorf("error %v for a fact that was never read, want the table's", err)
	}
	// A lookup with a life of 0 never returns a stale fact.
	if _, _, err := c.lookup(t.Context(), moment{clock: now}, 0, keysNamed("a"), s.read); !errors.Is(err, errRead) {
		t.Errorf("error %v for a lookup with life 0, want the table's", err)
	}
}

// While reads fail, one caller a second tries again. The others use the stale fact.
func TestFailingReadsAreNotRepeatedByEveryCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newCache(time.Minute, 10), &source{parent: "p"}
		ask := func() {
			t.Helper()
			if facts, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil || facts[0].place.Parent != "p" {
				t.Errorf("facts %v, error %v, want the old one", facts, err)
			}
		}
		ask()
		s.err = errRead
		time.Sleep(time.Hour)
		for range 5 {
			ask()
		}
		time.Sleep(time.Second)
		ask()
		wantReads(t, s, "a", "a", "a")
	})
}

// A reader that panics does not block other callers.
func TestReadThatPanicsDoesNotBlock(t *testing.T) {
	t.Parallel()
	c, s := newCache(time.Minute, 10), &source{parent: "p"}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = c.lookup(t.Context(), moment{clock: time.Now()}, c.life, keysNamed("a"),
			func([]factKey) ([]*fact, error) {
				panic("middleware")
			})
	}()
	if facts, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil || facts[0].place.Parent != "p" {
		t.Errorf("facts %v, error %v after a panic", facts, err)
	}
}

// A timeout of the connection is an error, not the end of the caller's context.
func TestReadThatTimesOutIsAnError(t *testing.T) {
	t.Parallel()
	c, s := newCache(time.Minute, 10), &source{err: fmt.Errorf("awaiting headers: %w", context.DeadlineExceeded)}
	if _, err := c.ask(s, moment{clock: time.Now()}, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the read's", err)
	}
	wantReads(t, s, "a")
}

// A reader that gives up does not fail the callers that wait for its read.
func TestReaderThatGivesUpDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute, 10)
		gaveUp := &source{err: context.Canceled, hold: make(chan struct{})}
		go func() { _, _ = c.ask(gaveUp, moment{clock: time.Now()}, "a") }()
		synctest.Wait()
		s, done := &source{parent: "p"}, make(chan error)
		go func() { _, err := c.ask(s, moment{clock: time.Now()}, "a"); done <- err }()
		synctest.Wait()
		close(gaveUp.hold)
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantReads(t, s, "a")
	})
}

func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	c, m, s := newCache(time.Minute, 10), newImages(10), &source{}
	for i := range 100 {
		if _, err := c.ask(s, moment{clock: time.Now()}, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		m.observe(key{pk: fmt.Sprint(i)}, &image{}, nil)
		m.forget(fmt.Sprint("deleted-", i))
	}
	if c.size() > 10 || len(m.cached) > 10 || len(m.deleted) > 10 {
		t.Errorf("%d facts, %d images and %d deletions are kept, want at most 10", c.size(), len(m.cached),
			len(m.deleted))
	}
}

func TestWithoutALifeNothingIsKept(t *testing.T) {
	t.Parallel()
	c, s := newCache(0, 10), &source{}
	for range 3 {
		if _, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil {
			t.Fatal(err)
		}
	}
	wantReads(t, s, "a", "a", "a")
	if c.size() != 0 {
		t.Errorf("%d facts are kept", c.size())
	}
}

// A table that does not answer uses up the timeout of one caller. The next callers
// get stale facts at once.
func TestOldFactsServeAfterAReaderTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s := newCache(time.Minute, 10), &source{parent: "old"}
		if _, err := c.ask(s, moment{clock: time.Now()}, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		reads := 0
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			facts, _, err := c.lookup(ctx, moment{clock: time.Now()}, c.life, keysNamed("a"),
				func([]factKey) ([]*fact, error) {
					reads++
					<-ctx.Done()
					return nil, ctx.Err()
				})
			cancel()
			if err != nil || facts[0].place.Parent != "old" {
				t.Errorf("facts %v, error %v, want the old one", facts, err)
			}
		}
		if reads != 1 {
			t.Errorf("%d callers spent their time on a read, want 1", reads)
		}
	})
}
