package limiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func unavailable(t *testing.T, err error, op string) {
	t.Helper()
	out, ok := errors.AsType[*limiter.UnavailableError](err)
	if !ok || out.Op != op {
		t.Fatalf("got %v, want an *UnavailableError of %q", err, op)
	}
}

// TestCommitThatFailsHasEndedTheLease covers row B-17 of docs/defects.md: a
// failed commit refunds nothing, and no later call credits again.
func TestCommitThatFailsHasEndedTheLease(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.family(t)
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(5)))
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		check(t, w.store.Repository.Credit(ctx, now, credits[:1]...)) // halfway
		return errDown
	}
	unavailable(t, lease.Commit(bg), "commit")
	w.noCredit(t)
	wantEnded(t, lease)
	w.wantLeft(t, alice, "rpm", 85)
	w.wantLeft(t, project, "rpm", 90)
}

func TestRollbackThatFailsHasEndedTheLease(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	w.store.down()
	err := lease.Rollback(bg)
	unavailable(t, err, "rollback")
	is(t, err, errDown)
	w.noCredit(t)
	wantEnded(t, lease)
}

// TestCancelledContextStillSettles covers row B-12 of docs/defects.md: a lease
// settles even if its caller has gone.
func TestCancelledContextStillSettles(t *testing.T) {
	type key struct{}
	for name, settle := range map[string]func(*limiter.Lease, context.Context) error{
		"Commit": (*limiter.Lease).Commit, "Rollback": (*limiter.Lease).Rollback, "Flush": (*limiter.Lease).Flush,
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 100))
			lease := w.take(t, alice, rpm(50))
			check(t, lease.Release(rpm(50)))
			asked := false
			w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
				asked = true
				if _, ok := ctx.Deadline(); !ok || ctx.Value(key{}) != "kept" {
					t.Error("the store's context has no deadline of its own, or not the caller's values")
				}
				return w.store.Repository.Credit(ctx, now, credits...)
			}
			ctx, cancel := context.WithCancel(context.WithValue(bg, key{}, "kept"))
			cancel()
			check(t, settle(lease, ctx))
			if !asked {
				t.Error("the store was not asked")
			}
			w.wantLeft(t, alice, "rpm", 100)
		})
	}
}

func TestSettleTimeoutEndsASettlement(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := startWith(t, limiter.Options{SettleTimeout: timeout}, memory.Options{}, limiter.PerMinute("rpm", 100))
			if timeout == 0 {
				timeout = limiter.DefaultSettleTimeout
			}
			lease := w.take(t, alice, rpm(50))
			check(t, lease.Adjust(rpm(1)))
			w.store.onCredit = func(ctx context.Context, _ time.Time, _ ...limiter.Credit) error {
				<-ctx.Done()
				return ctx.Err()
			}
			began := time.Now()
			err := lease.Commit(bg)
			unavailable(t, err, "commit")
			is(t, err, context.DeadlineExceeded)
			if took := time.Since(began); took != timeout {
				t.Errorf("gave up after %v, want %v", took, timeout)
			}
		})
	}
}

// TestFlushOfUnknownOutcomeNeverGivesBackTooMuch checks that a rollback gives
// back only confirmed amounts after a Flush of unknown outcome.
func TestFlushOfUnknownOutcomeNeverGivesBackTooMuch(t *testing.T) {
	for _, c := range []struct {
		name            string
		adjust          int64
		written         bool
		flushed, undone int64 // balances after the flush and after the rollback
	}{
		{"a take that was lost", 20, false, 20, 70},
		{"a take that was stored", 20, true, 0, 50},
		{"a give-back that was lost", -20, false, 20, 50},
		{"a give-back that was stored", -20, true, 40, 70},
	} {
		for _, mode := range []limiter.OnUnavailable{limiter.Block, limiter.Allow} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				w := startWith(t, limiter.Options{OnUnavailable: mode}, memory.Options{}, limiter.PerMinute("rpm", 100))
				w.take(t, alice, rpm(30)) // without the lease 70 are left
				lease := w.take(t, alice, rpm(50))
				check(t, lease.Adjust(rpm(c.adjust)))
				w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
					if c.written {
						check(t, w.store.Repository.Credit(ctx, now, credits...))
					}
					return errDown
				}
				err := lease.Flush(bg)
				if mode == limiter.Allow {
					check(t, err)
					err = lease.Outage()
				}
				unavailable(t, err, "flush")
				w.wantLeft(t, alice, "rpm", c.flushed)

				w.noCredit(t)
				check(t, lease.Flush(bg)) // the failed adjustments are not resent
				w.store.up()
				check(t, lease.Rollback(bg))
				w.wantLeft(t, alice, "rpm", c.undone)
			})
		}
	}
}

func TestFlushGoesOn(t *testing.T) {
	w := start(t, limiter.PerMinute("tpm", 1000))
	lease := w.take(t, alice, tpm(100))
	for i := range int64(3) {
		check(t, lease.Adjust(tpm(50)))
		check(t, lease.Flush(bg))
		w.wantLeft(t, alice, "tpm", 900-50*(i+1))
	}
	w.noCredit(t)
	check(t, lease.Commit(bg)) // nothing is left to store
	if got := lease.Consumed().Get("tpm"); got != 250 {
		t.Errorf("consumed %d, want 250", got)
	}
}

// TestLeaseEndsDuringAFlush checks that a rollback during a Flush gives back what
// the Flush took, and that a commit does not.
func TestLeaseEndsDuringAFlush(t *testing.T) {
	for _, c := range []struct {
		name           string
		end            func(*limiter.Lease, context.Context) error
		left, consumed int64
	}{
		{"rollback", (*limiter.Lease).Rollback, 1000, 0},
		{"commit", (*limiter.Lease).Commit, 490, 510},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 1000))
			lease := w.take(t, alice, rpm(10))
			check(t, lease.Adjust(rpm(500)))
			w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
				check(t, w.store.Repository.Credit(ctx, now, credits...))
				w.store.up()
				return c.end(lease, ctx) // before the flush knows that it is stored
			}
			check(t, lease.Flush(bg))
			w.wantLeft(t, alice, "rpm", c.left)
			if got := lease.Consumed().Get("rpm"); got != c.consumed {
				t.Errorf("consumed %d, want %d", got, c.consumed)
			}
		})
	}
}

// TestFlushBooksOnlyWhatItSent checks that an account does not get back an amount
// of a limit that it gained during a Flush.
func TestFlushBooksOnlyWhatItSent(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: "project", Cascade: true})
	check(t, err)
	check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 100)))
	lease := w.take(t, alice, rpm(1))
	check(t, lease.Adjust(tpm(500))) // only the parent has the limit
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		w.store.up()
		check(t, w.store.Repository.Credit(ctx, now, credits...))
		check(t, w.SetLimits(ctx, alice, resource, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000)))
		check(t, lease.Consume(ctx, rpm(1)))
		_, err := w.Acquire(ctx, request(alice, tpm(500))) // another caller
		return err
	}
	check(t, lease.Flush(bg))
	check(t, lease.Rollback(bg))
	statuses, err := w.Status(bg, alice)
	check(t, err)
	for _, s := range statuses {
		if s.Limit.Name == "tpm" && s.Available != 500 {
			t.Errorf("%d tpm left, want 500", s.Available)
		}
	}
}

// TestFlushOfAReplacedBucketNeverGivesBackTooMuch checks that a new bucket does
// not get back what the old one paid, if the old one was deleted during a Flush.
func TestFlushOfAReplacedBucketNeverGivesBackTooMuch(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(20)))
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		check(t, w.store.Repository.Credit(ctx, now, credits...))
		check(t, w.DeleteEntity(ctx, alice))
		_, err := w.Acquire(ctx, request(alice, rpm(50))) // another caller
		check(t, err)
		return lease.Consume(ctx, rpm(5))
	}
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 45)
	w.store.up()
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 50)
}

func TestSettlementThatFailsUnderAllowShowsInOutage(t *testing.T) {
	for name, settle := range map[string]func(*limiter.Lease, context.Context) error{
		"commit": (*limiter.Lease).Commit, "rollback": (*limiter.Lease).Rollback, "flush": (*limiter.Lease).Flush,
		"consume": func(l *limiter.Lease, ctx context.Context) error { return l.Consume(ctx, rpm(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 100))
			req := request(alice, rpm(10))
			req.OnUnavailable = limiter.Allow
			lease, err := w.Acquire(bg, req)
			check(t, err)
			check(t, lease.Outage()) // everything is recorded
			check(t, lease.Adjust(rpm(1)))
			w.store.down()
			check(t, settle(lease, bg))
			unavailable(t, lease.Outage(), name)
			is(t, lease.Outage(), errDown)
		})
	}
}

func TestOutageIsTheFirstOne(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memory.Options{}, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	w.store.down()
	check(t, lease.Consume(bg, rpm(1)))
	check(t, lease.Rollback(bg))
	unavailable(t, lease.Outage(), "consume")
}
