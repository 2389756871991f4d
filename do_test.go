package limiter_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

var errWork = errors.New("work failed")

func TestDoCommitsWhenWorkSucceeds(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	check(t, w.Do(bg, request(alice, rpm(10)), func(_ context.Context, lease *limiter.Lease) error {
		return lease.Adjust(rpm(5))
	}))
	w.wantLeft(t, alice, "rpm", 85)
}

func TestDoRollsBackWhenWorkFails(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	err := w.Do(bg, request(alice, rpm(10)), func(_ context.Context, lease *limiter.Lease) error {
		check(t, lease.Adjust(rpm(5)))
		return errWork
	})
	if err != errWork { //nolint:errorlint // the error itself
		t.Errorf("got %v, want the error of the work as it is", err)
	}
	w.wantLeft(t, alice, "rpm", 100)
}

func TestDoRollsBackOnPanicAndGoexit(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_ = w.Do(bg, request(alice, rpm(10)), func(context.Context, *limiter.Lease) error {
					leave()
					return nil
				})
			}()
			if got := <-done; (name == "panic") != (got == "boom") {
				t.Errorf("recovered %v", got)
			}
			w.wantLeft(t, alice, "rpm", 100)
		})
	}
}

// TestDoSettlesWhenItsContextIsCancelled covers row B-12 of docs/defects.md: a
// cancellation during the work gives everything back, unless the work has
// finished.
func TestDoSettlesWhenItsContextIsCancelled(t *testing.T) {
	t.Run("B-12 work that gives up", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		ctx, cancel := context.WithCancel(bg)
		err := w.Do(ctx, request(alice, rpm(10)), func(ctx context.Context, _ *limiter.Lease) error {
			cancel()
			return ctx.Err()
		})
		is(t, err, context.Canceled)
		w.wantLeft(t, alice, "rpm", 100)
	})
	t.Run("B-12 work that finishes", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		ctx, cancel := context.WithCancel(bg)
		check(t, w.Do(ctx, request(alice, rpm(10)), func(_ context.Context, lease *limiter.Lease) error {
			cancel()
			return lease.Adjust(rpm(5))
		}))
		w.wantLeft(t, alice, "rpm", 85)
	})
}

func TestDoDoesNotWorkWhenRefused(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1))
	never := func(context.Context, *limiter.Lease) error {
		t.Error("the work was done")
		return nil
	}
	is(t, w.Do(bg, request(alice, rpm(2)), never), limiter.ErrNeverFits)
	w.store.down()
	unavailable(t, w.Do(bg, request(alice, rpm(1)), never), "acquire")
}

func TestDoReportsALeaseThatWorkEnded(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	err := w.Do(bg, request(alice, rpm(10)), func(ctx context.Context, lease *limiter.Lease) error {
		return lease.Commit(ctx)
	})
	is(t, err, limiter.ErrLeaseDone)
	w.wantLeft(t, alice, "rpm", 90)
	err = w.Do(bg, request(alice, rpm(10)), func(ctx context.Context, lease *limiter.Lease) error {
		return errors.Join(lease.Commit(ctx), errWork)
	})
	is(t, err, errWork)
	w.wantLeft(t, alice, "rpm", 80) // committed, so Do gives nothing back
}

func TestDoReportsAFailedSettlement(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.store.onCredit = fails
	unavailable(t, w.Do(bg, request(alice, rpm(10)), func(_ context.Context, lease *limiter.Lease) error {
		return lease.Adjust(rpm(5))
	}), "commit")
	err := w.Do(bg, request(alice, rpm(10)), func(context.Context, *limiter.Lease) error { return errWork })
	is(t, err, errWork)
	unavailable(t, err, "rollback")
}

func TestDoWorksInAnAllowedOutage(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memory.Options{})
	w.store.down()
	worked := false
	check(t, w.Do(bg, request(alice, rpm(10)), func(_ context.Context, lease *limiter.Lease) error {
		worked = true
		return lease.Adjust(tpm(5))
	}))
	if !worked {
		t.Error("the work was not done")
	}
}
