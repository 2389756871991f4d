package escrow_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// A thousand calls at the same time are a handful of requests, with holds and
// without, on a bucket that covers all of them, some or none.
func TestCallsAtTheSameTimeShareRequests(t *testing.T) {
	const calls = 1000
	for _, opts := range []*escrow.Options{nil, sharing} {
		for _, capacity := range []int64{2 * calls, calls / 2, 1} {
			t.Run(fmt.Sprintf("%+v of %d", opts, capacity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newRemote(t, 5*time.Millisecond, limiter.PerHour("rpm", capacity))
					repo := escrow.New(store, opts)
					defer func() { must(t, repo.Close()) }()
					if capacity == 1 { // the bucket is empty, and the accounts are unknown
						_, err := store.Repository.Consume(t.Context(), time.Now(), chargeOf(1))
						must(t, err)
					}
					var admitted atomic.Int64
					var all sync.WaitGroup
					for range calls {
						all.Go(func() {
							out, err := repo.Consume(t.Context(), time.Now(), chargeOf(1))
							if err != nil {
								t.Error(err)
							}
							if out.Admitted {
								admitted.Add(1)
							}
						})
					}
					all.Wait()
					if n := store.consumes.Load(); n > 4 {
						t.Errorf("%d requests for %d calls", n, calls)
					}
					if want := min(calls, capacity); admitted.Load() != want && capacity > 1 {
						t.Errorf("%d calls were admitted, want %d", admitted.Load(), want)
					}
				})
			})
		}
	}
}

// One caller's unknown limit is no error of another, though both share a request.
func TestCallersWithALimitThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := []limiter.Limit{limiter.PerMinute("rpm", 6000), limiter.PerMinute("tpm", 6000)}
		store := newRemote(t, 5*time.Millisecond, both...)
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		charge := chargeOf(1)
		charge.Amounts = charge.Amounts.And("tpm", 1)
		_, err := repo.Consume(t.Context(), time.Now(), charge)
		must(t, err)
		must(t,
			store.SetConfig(t.Context(), limiter.Config{Limits: both[:1]},
				limiter.AuditEvent{ID: "02", At: time.Now()}))
		var good, bad error
		var all sync.WaitGroup
		all.Go(func() { _, _ = repo.Consume(t.Context(), time.Now(), chargeOf(100)) }) // the next calls wait for it
		synctest.Wait()
		all.Go(func() { _, good = repo.Consume(t.Context(), time.Now(), chargeOf(100)) })
		all.Go(func() { _, bad = repo.Consume(t.Context(), time.Now(), charge) })
		all.Wait()
		if good != nil || bad == nil {
			t.Errorf("errors %v and %v, want only the second", good, bad)
		}
	})
}

// The share of a caller that leaves stays in the pot or goes back.
func TestACallerThatLeavesLosesNothing(t *testing.T) {
	for _, opts := range []*escrow.Options{nil, sharing} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote(t, 10*time.Millisecond, limiter.PerHour("rpm", 1000))
			repo := escrow.New(store, opts)
			_, err := repo.Consume(t.Context(), time.Now(), chargeOf(1))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := repo.Consume(ctx, time.Now(), chargeOf(100)); err == nil {
				t.Error("no error after the deadline")
			}
			must(t, repo.Close())
			if s := repo.Stats(); s.Held != 0 || s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
			out, err := store.Repository.Peek(t.Context(), time.Now(), chargeOf(0))
			must(t, err)
			if got := out.Payers[0].Tokens[0]; got < 999_000 || got >= 1_000_000 {
				t.Errorf("the bucket holds %d thousandths, want about 999000", got)
			}
		})
	}
}

// failing is a store whose charges fail after a while.
type failing struct {
	*remote
	err error
}

// Consume fails.
func (f *failing) Consume(ctx context.Context, _ time.Time, _ limiter.Charge) (limiter.Outcome, error) {
	f.consumes.Add(1)
	select {
	case <-time.After(f.latency):
		return limiter.Outcome{}, f.err
	case <-ctx.Done():
		return limiter.Outcome{}, ctx.Err()
	}
}

// In an outage, the callers of an unknown bucket share the error of the request
// that they waited for. An error about one caller's charge, and the end of its
// context, are its own.
func TestCallersOfAnUnknownBucketShareAnOutage(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		timeout  time.Duration // of the first caller
		requests int64
	}{
		{"an outage", errors.New("out"), time.Hour, 2},
		{"an error about a charge", &limiter.InvalidError{}, time.Hour, 20},
		{"the end of a caller's context", errors.New("out"), time.Millisecond, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &failing{newRemote(t, 200*time.Millisecond), c.err}
				repo := escrow.New(store, nil)
				defer func() { must(t, repo.Close()) }()
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				var all sync.WaitGroup
				all.Go(func() { _, _ = repo.Consume(ctx, time.Now(), chargeOf(1)) })
				synctest.Wait()
				for i := range 19 {
					charge := chargeOf(1)
					if i == 18 {
						charge.Defaults = []limiter.Limit{limiter.PerMinute("rpm", 1)} // it may fail otherwise
					}
					all.Go(func() {
						if _, err := repo.Consume(t.Context(), time.Now(), charge); !errors.Is(err, c.err) {
							t.Errorf("error %v, want %v", err, c.err)
						}
					})
				}
				all.Wait()
				if n := store.consumes.Load(); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
			})
		})
	}
}
