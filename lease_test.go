package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// noCredit fails the test if the lease sends a credit.
func (w *world) noCredit(t *testing.T) {
	t.Helper()
	w.store.onCredit = func(_ context.Context, _ time.Time, credits ...limiter.Credit) error {
		t.Errorf("the store was asked to credit %v", credits)
		return nil
	}
}

func TestCommitStoresAdjustments(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000))
	lease := w.take(t, alice, rpm(1).And("tpm", 500))
	check(t, lease.Adjust(tpm(120)))
	check(t, lease.Release(tpm(20).And("rpm", 1)))
	w.wantLeft(t, alice, "tpm", 500) // local until then
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "tpm", 400)
	w.wantLeft(t, alice, "rpm", 10)
}

func TestCommitWithoutAdjustmentsDoesNoIO(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.noCredit(t)
	for _, adjust := range []limiter.Amounts{{}, rpm(0)} {
		lease := w.take(t, alice, rpm(1))
		check(t, lease.Adjust(adjust))
		check(t, lease.Flush(bg))
		check(t, lease.Adjust(rpm(3)))
		check(t, lease.Release(rpm(3))) // the adjustments cancel out
		check(t, lease.Commit(bg))
	}
	check(t, w.take(t, alice, rpm(0)).Rollback(bg)) // nothing taken, nothing to give back
}

func TestRollbackGivesEverythingBack(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.family(t)
	other := w.take(t, alice, rpm(30)) // so that the capacity hides nothing
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Consume(bg, rpm(5)))
	check(t, lease.Adjust(rpm(20)))
	check(t, lease.Flush(bg))
	check(t, lease.Adjust(rpm(-7)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 42)
	check(t, lease.Adjust(rpm(1000))) // never stored, so not given back
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 70)
	w.wantLeft(t, project, "rpm", 70)
	check(t, other.Commit(bg))
}

// TestRollbackAfterRefillStopsAtTheCapacity covers row B-16 of docs/defects.md:
// giving back never lifts a bucket above its capacity.
func TestRollbackAfterRefillStopsAtTheCapacity(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(99))
	w.clock.pass(time.Minute)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 100)
	w.take(t, alice, rpm(100))
	w.refuse(t, rpm(1))
}

// TestLeaseConsumeIsAConditionalDebit covers row B-16 of docs/defects.md: Consume
// is a conditional debit, so concurrent leases do not overdraw.
func TestLeaseConsumeIsAConditionalDebit(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.family(t)
	a, b := w.take(t, alice, rpm(10)), w.take(t, alice, rpm(10))
	check(t, a.Consume(bg, rpm(60)))
	before := b.Consumed()
	ex := exceeded(t, b.Consume(bg, rpm(60)))
	if p := ex.Primary(); p.Available != 20 || p.Requested != 60 || len(ex.Statuses) != 2 {
		t.Errorf("refused by %+v of %d", p, len(ex.Statuses))
	}
	if got := b.Consumed(); !got.Equal(before) {
		t.Errorf("the lease has %v, want %v as before", got, before)
	}
	is(t, b.Consume(bg, rpm(101)), limiter.ErrNeverFits)
	w.wantLeft(t, alice, "rpm", 20)
	w.wantLeft(t, project, "rpm", 20)
	check(t, a.Rollback(bg))
	w.wantLeft(t, project, "rpm", 90)
}

// TestLeaseAdjustsLimitsItDidNotAcquire covers row B-5 of docs/defects.md: every
// limit of the bucket can be adjusted, not only the acquired ones.
func TestLeaseAdjustsLimitsItDidNotAcquire(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000))
	for range 2 { // a new bucket, and an existing one
		lease := w.take(t, alice, rpm(1))
		check(t, lease.Adjust(tpm(300)))
		check(t, lease.Commit(bg))
	}
	w.wantLeft(t, alice, "tpm", 400)
	lease := w.take(t, alice, rpm(1))
	check(t, lease.Consume(bg, tpm(300)))
	check(t, lease.Release(tpm(100)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "tpm", 200)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "tpm", 400)
}

func TestAdjustmentMayLeaveDebt(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(1_000_000)))
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "rpm", -1_000_000)
	w.refuse(t, rpm(0))
}

func TestReleaseLeavesItsArgumentAlone(t *testing.T) {
	var limits []limiter.Limit
	var amounts limiter.Amounts
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		limits, amounts = append(limits, limiter.PerMinute(name, 100)), amounts.And(name, 10)
	}
	w := start(t, limits...)
	before := amounts.String()
	lease := w.take(t, alice, amounts)
	check(t, lease.Release(amounts))
	if got := amounts.String(); got != before {
		t.Errorf("%q became %q", before, got)
	}
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "f", 100)
}

func TestLeaseEndsOnce(t *testing.T) {
	for name, end := range map[string]func(*limiter.Lease) error{
		"Commit":   func(l *limiter.Lease) error { return l.Commit(bg) },
		"Rollback": func(l *limiter.Lease) error { return l.Rollback(bg) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 100))
			w.take(t, alice, rpm(50))
			lease := w.take(t, alice, rpm(10))
			check(t, lease.Adjust(rpm(5)))
			check(t, end(lease))
			w.noCredit(t)
			wantEnded(t, lease)
			if d := lease.Decision(); len(d.Statuses) != 1 || d.Statuses[0].Available != 40 {
				t.Errorf("what Acquire left is forgotten: %+v", d)
			}
		})
	}
}

// wantEnded checks every method of an ended lease.
func wantEnded(t *testing.T, lease *limiter.Lease) {
	t.Helper()
	is(t, lease.Adjust(rpm(1)), limiter.ErrLeaseDone)
	is(t, lease.Release(rpm(1)), limiter.ErrLeaseDone)
	is(t, lease.Consume(bg, rpm(1)), limiter.ErrLeaseDone)
	is(t, lease.Flush(bg), limiter.ErrLeaseDone)
	is(t, lease.Commit(bg), limiter.ErrLeaseDone)
	check(t, lease.Rollback(bg)) // always safe to defer
	check(t, lease.Rollback(bg))
}

func TestNilAndZeroLeaseHaveEnded(t *testing.T) {
	for _, lease := range []*limiter.Lease{nil, {}} {
		wantEnded(t, lease)
		if diff := cmp.Diff(limiter.Decision{}, lease.Decision(), cmp.Comparer(func(a, b []limiter.Status) bool {
			return len(a) == len(b)
		})); diff != "" {
			t.Error(diff)
		}
		if got := lease.Consumed(); got.Len() != 0 {
			t.Errorf("consumed %v", got)
		}
		check(t, lease.Outage())
	}
}

func TestLeaseConsumeChecksItsInputFirst(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	lease := w.take(t, alice, rpm(1))
	w.store.onConsume = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) { panic("asked") }
	invalid(t, lease.Consume(bg, limiter.Amounts{}), "consume")
	invalid(t, lease.Consume(bg, rpm(-1)), "consume")
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	is(t, lease.Consume(cancelled, rpm(1)), context.Canceled)
	check(t, lease.Commit(bg))
}

// TestLeaseFollowsLimitsThatChange checks that Consume uses the limits in force,
// and that the lease counts all of them.
func TestLeaseFollowsLimitsThatChange(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	lease := w.take(t, alice, rpm(1))
	invalid(t, lease.Adjust(tpm(1)), "limit")
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100)))
	check(t, lease.Consume(bg, tpm(5)))
	check(t, lease.Adjust(tpm(3)))
	if got, want := lease.Consumed(), rpm(1).And("tpm", 8); !got.Equal(want) {
		t.Errorf("consumed %q, want %q", got, want)
	}
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "tpm", 92)
}

// TestLeaseOutlivesItsBucket checks that a new bucket pays nothing for a lease on
// a deleted one, and gets nothing back.
func TestLeaseOutlivesItsBucket(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	check(t, w.DeleteEntity(bg, alice))
	w.take(t, alice, rpm(30)) // a new bucket
	check(t, lease.Consume(bg, rpm(5)))
	check(t, lease.Adjust(rpm(1)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 64)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 70)
}

// TestLeaseOutlivesABucketThatExpired checks that the successor of an expired
// bucket pays once, and only for later amounts.
func TestLeaseOutlivesABucketThatExpired(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	w.clock.pass(time.Hour)
	check(t, lease.Consume(bg, rpm(20)))
	check(t, lease.Adjust(rpm(5)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 75)
	if got := lease.Consumed(); !got.Equal(rpm(35)) {
		t.Errorf("consumed %v, want rpm=35", got)
	}
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 100)
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
