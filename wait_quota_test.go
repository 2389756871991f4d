package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// hourly is a quota whose boundaries a test can wait for.
var hourly = limiter.Quota("rpm", 10, limiter.EveryHour)

// waitHere returns a limiter in a bubble whose quota is used up, a quarter past the
// hour. Its clock may differ from the machine's.
func waitHere(t *testing.T, off time.Duration) *limiter.RateLimiter {
	t.Helper()
	repo := memory.New(nil)
	lim := newLimiter(t, repo, &limiter.Options{Now: func() time.Time { return time.Now().Add(off) }})
	check(t, lim.SetSystemDefaults(bg, hourly))
	time.Sleep(15 * time.Minute)
	_, err := lim.Acquire(bg, request(alice, rpm(10)))
	check(t, err)
	return lim
}

func TestWaitForTheBoundaryOfAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		began := time.Now()
		_, err := lim.Wait(bg, request(alice, rpm(10)))
		check(t, err)
		if waited := time.Since(began); waited != 45*time.Minute {
			t.Errorf("waited %v, want until the boundary", waited)
		}
	})
}

// TestWaitForALoweredQuota waits for a quota that was lowered below its use: the next
// boundary fills it.
func TestWaitForALoweredQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		check(t, lim.SetSystemDefaults(bg, limiter.Quota("rpm", 4, limiter.EveryHour)))
		began := time.Now()
		for range 2 {
			_, err := lim.Wait(bg, request(alice, rpm(4)))
			check(t, err)
		}
		if waited := time.Since(began); waited != 45*time.Minute+time.Hour {
			t.Errorf("waited %v, want until the second boundary", waited)
		}
	})
}

// TestWaitForAQuotaByAnotherClock has a limiter whose clock is ten minutes ahead of
// the machine's: its boundary comes ten minutes earlier.
func TestWaitForAQuotaByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 10*time.Minute)
		began := time.Now()
		_, err := lim.Wait(bg, request(alice, rpm(10)))
		check(t, err)
		if waited := time.Since(began); waited < 35*time.Minute || waited > 35*time.Minute+5*time.Second {
			t.Errorf("waited %v, want about 35 minutes", waited)
		}
	})
}

// TestWaitersOfAQuotaAreServedInOrder has more waiters than a window serves. What is
// left after a waiter says which of the two of its window it was: the scheduler
// chooses which of their goroutines goes on first.
func TestWaitersOfAQuotaAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		began := time.Now()
		type turn struct {
			after time.Duration
			left  int64
		}
		var turns [6]turn
		var wg sync.WaitGroup
		for i := range turns {
			wg.Go(func() {
				lease, err := lim.Wait(bg, request(alice, rpm(5)))
				if err != nil {
					t.Error(err)
					return
				}
				turns[i] = turn{time.Since(began).Round(time.Minute), lease.Decision().Statuses[0].Available}
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, got := range turns {
			if want := (turn{45*time.Minute + time.Duration(i/2)*time.Hour, 5 - 5*int64(i%2)}); got != want {
				t.Errorf("waiter %d: %+v, want %+v", i, got, want)
			}
		}
	})
}

func TestWaitDoesNotOutlastItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		ctx, cancel := context.WithTimeout(bg, 44*time.Minute)
		defer cancel()
		began := time.Now()
		_, err := lim.Wait(ctx, request(alice, rpm(1)))
		is(t, err, context.DeadlineExceeded)
		if d := exceeded(t, err); d.RetryAfter() != 45*time.Minute || time.Since(began) != 0 {
			t.Errorf("RetryAfter %v after %v", d.RetryAfter(), time.Since(began))
		}
		_, err = lim.Wait(bg, request(alice, rpm(11)))
		is(t, err, limiter.ErrNeverFits)
	})
}

// TestWaitEndsWhenALevelIsSwitchedOff disables an entity that waits.
func TestWaitEndsWhenALevelIsSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = lim.Wait(bg, request(alice, rpm(1))) })
		time.Sleep(time.Minute)
		check(t, lim.Disable(bg, limiter.Scope{Entity: alice}, ""))
		began := time.Now()
		wg.Wait()
		if _, ok := errors.AsType[*limiter.DisabledError](err); !ok || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestWaitEndsWithATopUp tops up a bucket that a caller waits for.
func TestWaitEndsWithATopUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := waitHere(t, 0)
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = lim.Wait(bg, request(alice, rpm(3))) })
		time.Sleep(time.Minute)
		topUp(t, lim, rpm(3), "a")
		began := time.Now()
		wg.Wait()
		if err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
