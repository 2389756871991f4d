package limiter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// A rollback while a flush is under way gives back what the flush took, too.
func TestRollbackDuringAFlushGivesEverythingBack(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1000))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(500)))
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		check(t, w.store.Repository.Credit(ctx, now, credits...))
		w.store.up()
		return lease.Rollback(ctx) // before the flush hears that it is stored
	}
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 1000)
	if got := lease.Consumed(); got.Len() != 0 {
		t.Errorf("consumed %q", got)
	}
}

// A commit while a flush is under way leaves what the flush took.
func TestCommitDuringAFlushLeavesItStored(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1000))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(500)))
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		check(t, w.store.Repository.Credit(ctx, now, credits...))
		w.store.up()
		return lease.Commit(ctx)
	}
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 490)
	if got := lease.Consumed().Get("rpm"); got != 510 {
		t.Errorf("consumed %d, want 510", got)
	}
}

func TestNothingIsConsumedAfterARollback(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(5)))
	check(t, lease.Rollback(bg))
	if got := lease.Consumed(); got.Get("rpm") != 0 {
		t.Errorf("consumed %q", got)
	}
}

// A limiter and its view of the same namespace share a line.
func TestWaitersOfALimiterAndItsViewStandInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, memory.New(nil), nil)
		check(t, lim.SetSystemDefaults(bg, limiter.PerMinute("rpm", 60)))
		_, err := lim.Acquire(bg, request(alice, rpm(60)))
		check(t, err)
		view, err := lim.Namespace(bg, "default")
		check(t, err)
		served := make(chan int64)
		for i, ask := range []int64{20, 1} {
			lim := []*limiter.RateLimiter{lim, view}[i]
			go func() {
				if _, err := lim.Wait(bg, request(alice, rpm(ask))); err != nil {
					t.Error(err)
				}
				served <- ask
			}()
			synctest.Wait()
		}
		if first, second := <-served, <-served; first != 20 || second != 1 {
			t.Errorf("served %d, then %d: the second overtook", first, second)
		}
	})
}

func TestTextIsUTF8(t *testing.T) {
	w := start(t)
	_, err := w.CreateEntity(bg, limiter.Entity{ID: "a", Name: "\xff"})
	invalid(t, err, "name")
	_, err = w.CreateEntity(bg, limiter.Entity{ID: "a", Metadata: map[string]string{"k": "v\xfe"}})
	invalid(t, err, "metadata")
}

func TestAmountsNameTheirLimits(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	_, err := w.Acquire(bg, request(alice, limiter.Tokens("", 1)))
	invalid(t, err, "consume")
}
