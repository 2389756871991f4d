package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// endDuring ends the lease during its Consume: after the store has charged, and
// before the lease knows the outcome.
func (w *world) endDuring(end func()) {
	w.store.onConsume = func(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
		out, err := w.store.Repository.Consume(ctx, now, c)
		end()
		return out, err
	}
}

func TestConsumeThatLosesTheRaceGivesBack(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.family(t)
	lease := w.take(t, alice, rpm(10))
	w.endDuring(func() { check(t, lease.Commit(bg)) })
	is(t, lease.Consume(bg, rpm(20)), limiter.ErrLeaseDone)
	w.wantLeft(t, alice, "rpm", 90) // committed: the 10 stay
	w.wantLeft(t, project, "rpm", 90)
	if got := lease.Consumed(); !got.Equal(rpm(10)) {
		t.Errorf("consumed %v", got)
	}
}

func TestConsumeThatLosesTheRaceInAnOutageSaysBoth(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	w.endDuring(func() { check(t, lease.Commit(bg)); w.store.onCredit = fails })
	err := lease.Consume(bg, rpm(20))
	is(t, err, limiter.ErrLeaseDone)
	is(t, err, errDown)
	unavailable(t, err, "consume")

	w = startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memory.Options{}, limiter.PerMinute("rpm", 100))
	lease = w.take(t, alice, rpm(10))
	w.endDuring(func() { check(t, lease.Commit(bg)); w.store.onCredit = fails })
	err = lease.Consume(bg, rpm(20))
	is(t, err, limiter.ErrLeaseDone)
	if errors.Is(err, errDown) {
		t.Errorf("allowed, but %v", err)
	}
	unavailable(t, lease.Outage(), "consume")
}

func fails(context.Context, time.Time, ...limiter.Credit) error { return errDown }

// TestLeaseIsSafeForConcurrentUse checks that a rollback leaves nothing behind
// after concurrent use.
func TestLeaseIsSafeForConcurrentUse(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100_000), limiter.PerDay("tpm", 100_000))
	w.family(t)
	w.take(t, alice, rpm(50_000).And("tpm", 50_000))
	lease := w.take(t, alice, rpm(10))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := lease.Consume(bg, rpm(1).And("tpm", int64(i))); err != nil {
					t.Error(err)
				}
				if err := errors.Join(lease.Adjust(tpm(3)), lease.Release(rpm(1))); err != nil {
					t.Error(err)
				}
				if (g+i)%3 == 0 {
					if err := lease.Flush(bg); err != nil {
						t.Error(err)
					}
				}
				_, _, _ = lease.Consumed(), lease.Decision(), lease.Outage()
			}
		})
	}
	wg.Wait()
	if got, want := lease.Consumed(), rpm(10).And("tpm", 8*50*(3+24)+8*25); !got.Equal(want) {
		t.Errorf("consumed %q, want %q", got, want)
	}
	check(t, lease.Flush(bg))
	check(t, lease.Rollback(bg))
	for _, e := range []string{alice, project} {
		w.wantLeft(t, e, "rpm", 50_000)
		w.wantLeft(t, e, "tpm", 50_000)
	}
}

// TestLeaseIsSafeInAnOutage checks that a Consume that meets an outage reads the mode
// of its lease while other calls change it. The race detector finds it otherwise.
func TestLeaseIsSafeInAnOutage(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memory.Options{}, limiter.PerDay("rpm", 1000))
	for range 20 {
		lease := w.take(t, alice, rpm(1))
		w.store.onConsume = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
			return limiter.Outcome{}, errDown
		}

		var wg sync.WaitGroup
		wg.Go(func() {
			if err := lease.Consume(bg, rpm(1)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := lease.Adjust(rpm(1)); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()

		w.store.onConsume = nil
		unavailable(t, lease.Outage(), "consume")
	}
}

// TestLeaseEndsOnceUnderConcurrentUse checks that one of several concurrent ends
// wins, and that no more is given back than was taken.
func TestLeaseEndsOnceUnderConcurrentUse(t *testing.T) {
	for range 20 {
		w := start(t, limiter.PerDay("rpm", 1000))
		w.take(t, alice, rpm(500))
		lease := w.take(t, alice, rpm(10))
		var wg sync.WaitGroup
		ends := make(chan error, 8)
		for g := range 8 {
			wg.Go(func() {
				_ = lease.Consume(bg, rpm(5))
				_ = lease.Adjust(rpm(int64(g - 4)))
				_ = lease.Flush(bg)
				if g%2 == 0 {
					ends <- lease.Commit(bg)
				} else if err := lease.Rollback(bg); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(ends)
		commits := 0
		for err := range ends {
			if err == nil {
				commits++
			} else {
				is(t, err, limiter.ErrLeaseDone)
			}
		}
		if commits > 1 {
			t.Errorf("%d commits succeeded", commits)
		}
		if got := w.left(t, alice, "rpm"); got > 500 {
			t.Errorf("%d left, more than without the lease", got)
		}
	}
}
