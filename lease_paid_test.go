package limiter_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// tooMuch checks that a correction is an *InvalidError and changes nothing.
func tooMuch(t *testing.T, lease *limiter.Lease, field string, correct func() error) {
	t.Helper()
	before := lease.Consumed()
	invalid(t, correct(), field)
	if got := lease.Consumed(); !got.Equal(before) {
		t.Errorf("the lease holds %q after bad input, want %q as before", got, before)
	}
}

// TestReleaseGivesALateParentWhatItPaid checks that a parent that was added
// during the lease gets back what it paid, and no more.
func TestReleaseGivesALateParentWhatItPaid(t *testing.T) {
	for name, settle := range map[string]func(*limiter.Lease, context.Context) error{
		"Commit": (*limiter.Lease).Commit, "Flush": (*limiter.Lease).Flush,
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, limiter.PerMinute("rpm", 1000))
			w.take(t, project, rpm(500)) // so that the capacity hides nothing
			lease := w.take(t, alice, rpm(100))
			w.family(t)
			check(t, lease.Consume(bg, rpm(10)))
			w.wantLeft(t, alice, "rpm", 890)
			w.wantLeft(t, project, "rpm", 490)
			check(t, lease.Release(rpm(90)))
			check(t, settle(lease, bg))
			w.wantLeft(t, alice, "rpm", 980)
			w.wantLeft(t, project, "rpm", 500)
			if got := lease.Consumed(); !got.Equal(rpm(20)) {
				t.Errorf("consumed %q, want rpm=20", got)
			}
			check(t, lease.Rollback(bg))
			w.wantLeft(t, project, "rpm", 500)
		})
	}
}

// TestReleaseGivesAReplacedBucketWhatItPaid checks that a bucket that replaced
// another gets back only what it paid itself.
func TestReleaseGivesAReplacedBucketWhatItPaid(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1000))
	lease := w.take(t, alice, rpm(100))
	check(t, w.DeleteEntity(bg, alice))
	w.take(t, alice, rpm(500))
	check(t, lease.Consume(bg, rpm(10)))
	check(t, lease.Release(rpm(90)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 500)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 500)
}

// TestReleaseGivesEveryParentWhatItPaid checks that a former parent gets back
// what it paid, instead of its successor.
func TestReleaseGivesEveryParentWhatItPaid(t *testing.T) {
	const second = "project-2"
	w := start(t, limiter.PerMinute("rpm", 1000))
	for _, p := range []string{project, second} {
		w.take(t, p, rpm(500))
	}
	w.family(t)
	lease := w.take(t, alice, rpm(100))
	check(t, w.DeleteEntity(bg, alice))
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: second, Cascade: true})
	check(t, err)
	check(t, lease.Consume(bg, rpm(10)))
	check(t, lease.Adjust(rpm(5)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, project, "rpm", 400) // it pays no more
	w.wantLeft(t, second, "rpm", 485)
	check(t, lease.Release(rpm(90)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, second, "rpm", 500)
	w.wantLeft(t, project, "rpm", 475)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, project, "rpm", 500)
	w.wantLeft(t, second, "rpm", 500)
}

// TestFormerParentPaysNoMore checks that a former parent pays no more, and gets
// back what it paid.
func TestFormerParentPaysNoMore(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1000))
	w.take(t, project, rpm(500))
	w.family(t)
	lease := w.take(t, alice, rpm(100))
	check(t, w.DeleteEntity(bg, alice))
	check(t, lease.Consume(bg, rpm(10)))
	check(t, lease.Adjust(rpm(7)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, project, "rpm", 400)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, project, "rpm", 500)
}

// TestReleaseOfLimitsThatNotAllAccountsHave checks that a give-back of a limit
// that was added late, that only the parent has, or that came with the request
// goes to the account that has it.
func TestReleaseOfLimitsThatNotAllAccountsHave(t *testing.T) {
	t.Run("late limit", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		lease := w.take(t, alice, rpm(1))
		check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000)))
		check(t, lease.Consume(bg, tpm(50)))
		w.take(t, alice, tpm(500))
		tooMuch(t, lease, "adjust", func() error { return lease.Release(tpm(51)) })
		check(t, lease.Release(tpm(50)))
		check(t, lease.Commit(bg))
		w.wantLeft(t, alice, "tpm", 500)
	})
	t.Run("limit of the parent", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.family(t)
		check(t, w.SetLimits(bg, project, "", limiter.PerMinute("tpm", 1000)))
		w.take(t, project, tpm(500))
		lease := w.take(t, alice, rpm(1).And("tpm", 40))
		if got, want := lease.Consumed(), rpm(1).And("tpm", 40); !got.Equal(want) {
			t.Errorf("consumed %q, want %q", got, want)
		}
		tooMuch(t, lease, "adjust", func() error { return lease.Release(tpm(41)) })
		check(t, lease.Used("tpm", 10))
		check(t, lease.Commit(bg))
		w.wantLeft(t, project, "tpm", 490)
	})
	t.Run("limit the entity gets later than its parent", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.family(t)
		check(t, w.SetLimits(bg, project, "", limiter.PerMinute("tpm", 1000)))
		lease := w.take(t, alice, tpm(100))
		check(t, w.SetLimits(bg, alice, "", limiter.PerMinute("tpm", 1000)))
		w.take(t, alice, tpm(500))
		check(t, lease.Consume(bg, tpm(10)))
		check(t, lease.Release(tpm(90)))
		check(t, lease.Commit(bg))
		w.wantLeft(t, alice, "tpm", 500)
		w.wantLeft(t, project, "tpm", 480)
	})
	t.Run("override", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(50))
		lease, err := w.override(tpm(30), limiter.PerMinute("tpm", 50))
		check(t, err)
		tooMuch(t, lease, "adjust", func() error { return lease.Release(tpm(31)) })
		invalid(t, lease.Release(rpm(1)), "limit") // the limit is not in the lease
		check(t, lease.Release(tpm(30)))
		check(t, lease.Commit(bg))
		w.wantLeft(t, alice, "rpm", 50)
		_, err = w.override(tpm(50), limiter.PerMinute("tpm", 50))
		check(t, err)
	})
}

// TestLimitThatLeftIsGivenBack checks that a limit that the account has lost, and
// that returned before it was full, gets back what it paid.
func TestLimitThatLeftIsGivenBack(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
	lease := w.take(t, alice, rpm(1).And("tpm", 400))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100)))
	check(t, lease.Consume(bg, rpm(1)))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000)))
	check(t, lease.Consume(bg, rpm(1)))
	w.take(t, alice, tpm(500))
	if got := lease.Consumed().Get("tpm"); got != 400 {
		t.Errorf("consumed %d, want 400", got)
	}
	check(t, lease.Release(tpm(300)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "tpm", 400)
	check(t, lease.Adjust(tpm(20)))
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "tpm", 380)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "tpm", 500)
}

// TestLimitThatLeftOwesWhatIsTakenLate checks that a lease whose last Consume found a
// limit gone still charges it, whether the bucket remembers the limit, has forgotten it,
// or has been replaced.
func TestLimitThatLeftOwesWhatIsTakenLate(t *testing.T) {
	both := []limiter.Limit{limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000)}
	for name, idle := range map[string]time.Duration{"remembered": 0, "forgotten": time.Minute, "replaced": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := start(t, both...)
			w.family(t)
			lease := w.take(t, alice, tpm(1000))
			check(t, w.SetSystemDefaults(bg, both[0]))
			w.take(t, alice, rpm(1))
			w.clock.pass(idle)
			check(t, lease.Consume(bg, rpm(1)))
			check(t, lease.Used("tpm", 4000))
			check(t, lease.Commit(bg))
			check(t, w.SetSystemDefaults(bg, both...))
			w.refuse(t, tpm(0))
			want := -3000 + min(1000, 1000*int64(idle/time.Minute)) // a minute fills what the acquire took
			w.wantLeft(t, alice, "tpm", want)
			w.wantLeft(t, project, "tpm", want)
		})
	}
}

// TestReleaseOfMoreThanTheLeaseHolds checks that giving back more than the lease
// holds is an *InvalidError. Adjustments count, stored or not.
func TestReleaseOfMoreThanTheLeaseHolds(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 100))
	w.take(t, alice, rpm(50).And("tpm", 50))
	lease := w.take(t, alice, rpm(10))
	tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(11)) })
	tooMuch(t, lease, "adjust", func() error { return lease.Adjust(tpm(-1)) })
	tooMuch(t, lease, "adjust", func() error { return lease.Adjust(rpm(5).And("tpm", -1)) }) // all or none
	tooMuch(t, lease, "adjust", func() error { return lease.Adjust(rpm(math.MinInt64)) })
	check(t, lease.Adjust(rpm(5)))
	check(t, lease.Release(rpm(15)))
	tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(1)) })
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 50)
	tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(1)) })
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 50)
	w.wantLeft(t, alice, "tpm", 50)
}

// TestAdjustmentsBeyondTheStoresRange checks that an adjustment that a store
// would have to truncate is an *InvalidError. Otherwise a rollback would give
// back what was never taken.
func TestAdjustmentsBeyondTheStoresRange(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 1000))
	w.take(t, alice, rpm(590))
	lease := w.take(t, alice, rpm(10))
	for _, n := range []int64{1 << 62, 1 << 62, -1 << 62, math.MaxInt64, math.MinInt64} {
		tooMuch(t, lease, "adjust", func() error { return lease.Adjust(rpm(n)) })
		check(t, lease.Flush(bg))
	}
	tooMuch(t, lease, "used", func() error { return lease.Used("rpm", math.MaxInt64) })
	w.wantLeft(t, alice, "rpm", 400)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 410)
}

// TestLargestAdjustmentsAreStoredExactly checks that the store counts the debt of
// a thousand leases at the bound to the token.
func TestLargestAdjustmentsAreStoredExactly(t *testing.T) {
	const most, leases = math.MaxInt64 / 1000 / 1000, 1000
	w := start(t, limiter.PerDay("rpm", 1000))
	w.take(t, alice, rpm(500))
	var all []*limiter.Lease
	for range leases {
		all = append(all, w.take(t, alice, rpm(0)))
	}
	for _, lease := range all {
		check(t, lease.Adjust(rpm(most-1)))
		check(t, lease.Flush(bg))
		check(t, lease.Used("rpm", most))
		check(t, lease.Flush(bg))
		tooMuch(t, lease, "adjust", func() error { return lease.Adjust(rpm(1)) })
		tooMuch(t, lease, "used", func() error { return lease.Used("rpm", most+1) })
		tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(most + 1)) })
	}
	w.wantLeft(t, alice, "rpm", 500-leases*most)
	for _, lease := range all {
		check(t, lease.Rollback(bg))
	}
	w.wantLeft(t, alice, "rpm", 500)
}

// during calls what while a settlement is under way: after the store has applied
// it, and before the lease knows the outcome.
func (w *world) during(t *testing.T, outcome error, what func()) {
	t.Helper()
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		w.store.up()
		if err := w.store.Repository.Credit(ctx, now, credits...); err != nil {
			return err
		}
		what()
		return outcome
	}
}

// TestReleaseOfWhatAFlushIsTaking checks that the amounts that a running Flush
// takes count as held, and are given back only once they are confirmed.
func TestReleaseOfWhatAFlushIsTaking(t *testing.T) {
	for name, outcome := range map[string]error{"stored": nil, "lost": errDown} {
		t.Run(name, func(t *testing.T) {
			w := start(t, limiter.PerDay("rpm", 1000))
			w.take(t, alice, rpm(500))
			lease := w.take(t, alice, rpm(10))
			check(t, lease.Adjust(rpm(400)))
			w.during(t, outcome, func() {
				tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(411)) })
				check(t, lease.Used("rpm", 410)) // as it is
				check(t, lease.Release(rpm(400)))
				check(t, lease.Flush(bg)) // the 10 acquired tokens are confirmed
				w.wantLeft(t, alice, "rpm", 100)
			})
			is(t, lease.Flush(bg), outcome)
			held, left := int64(10), int64(490)
			if outcome != nil {
				held, left = 0, 100 // the debit may not be stored, so it is not given back
			}
			if got := lease.Consumed().Get("rpm"); got != held {
				t.Errorf("consumed %d, want %d", got, held)
			}
			check(t, lease.Commit(bg))
			w.wantLeft(t, alice, "rpm", left)
		})
	}
}

// TestCommitGivesBackWhatAFlushIsTaking checks that a Commit during a Flush
// leaves the rest of its give-back to that Flush.
func TestCommitGivesBackWhatAFlushIsTaking(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.take(t, alice, rpm(500))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(400)))
	w.during(t, nil, func() {
		check(t, lease.Used("rpm", 7))
		check(t, lease.Commit(bg))
		w.wantLeft(t, alice, "rpm", 100)
	})
	check(t, lease.Flush(bg))
	w.wantLeft(t, alice, "rpm", 493)
	if got := lease.Consumed().Get("rpm"); got != 7 {
		t.Errorf("consumed %d, want 7", got)
	}
}

// TestReleaseOfWhatAConsumeIsTaking checks that the lease does not hold the
// amounts of a Consume before it returns.
func TestReleaseOfWhatAConsumeIsTaking(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	lease := w.take(t, alice, rpm(10))
	w.endDuring(func() {
		w.store.up()
		tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(11)) })
		check(t, lease.Used("rpm", 4))
		check(t, lease.Flush(bg))
	})
	check(t, lease.Consume(bg, rpm(5)))
	if got := lease.Consumed().Get("rpm"); got != 9 {
		t.Errorf("consumed %d, want 9", got)
	}
	w.wantLeft(t, alice, "rpm", 991)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 1000)
}

// TestFlushThatFailsHalfWayNeverGivesBackTooMuch checks that no account gets back
// more than it is known to have paid after a Flush that reached only some
// accounts.
func TestFlushThatFailsHalfWayNeverGivesBackTooMuch(t *testing.T) {
	for _, c := range []struct {
		name          string
		adjust        int64
		alice, parent int64 // balances at the end
		consumed      int64 // after the flush
	}{
		{"take", 20, 480, 500, 50},
		{"give-back", -20, 500, 480, 30},
	} {
		for _, end := range []string{"rollback", "release"} {
			t.Run(c.name+"/"+end, func(t *testing.T) {
				w := start(t, limiter.PerDay("rpm", 1000))
				w.family(t)
				w.take(t, alice, rpm(500))
				lease := w.take(t, alice, rpm(50))
				check(t, lease.Adjust(rpm(c.adjust)))
				w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
					check(t, w.store.Repository.Credit(ctx, now, credits[:1]...))
					return errDown
				}
				unavailable(t, lease.Flush(bg), "flush")
				w.store.up()
				if got := lease.Consumed().Get("rpm"); got != c.consumed {
					t.Errorf("consumed %d, want %d", got, c.consumed)
				}
				if end == "rollback" {
					check(t, lease.Rollback(bg))
				} else {
					tooMuch(t, lease, "adjust", func() error { return lease.Release(rpm(c.consumed + 1)) })
					check(t, lease.Used("rpm", 0))
					check(t, lease.Commit(bg))
				}
				w.wantLeft(t, alice, "rpm", c.alice)
				w.wantLeft(t, project, "rpm", c.parent)
			})
		}
	}
}
