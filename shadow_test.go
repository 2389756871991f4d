package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// tokensShadow is a shadow limit beside rpm of the tests.
var tokensShadow = limiter.PerDay("tpd", 100).Shadow()

func tpd(n int64) limiter.Amounts { return limiter.Tokens("tpd", n) }

// credits records the credits that a world's leases send.
func (w *world) credits() *[]limiter.Credit {
	var all []limiter.Credit
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		all = append(all, credits...)
		return w.store.Repository.Credit(ctx, now, credits...)
	}
	return &all
}

// wantCredits compares what credits carry.
func wantCredits(t *testing.T, got []limiter.Credit, want ...limiter.Credit) {
	t.Helper()
	for i := range got {
		got[i].Account = nil
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b limiter.Amounts) bool {
		return a.String() == b.String()
	})); diff != "" {
		t.Errorf("credits (-want +got):\n%s", diff)
	}
}

func TestLeaseCorrectsSparedLimitsApart(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), tokensShadow)
	w.take(t, alice, tpd(90))
	lease := w.take(t, alice, rpm(5).And("tpd", 20))
	for _, s := range lease.Decision().Statuses {
		if s.Exceeded || s.WouldRefuse != (s.Limit.Name == "tpd") {
			t.Errorf("status %+v", s)
		}
	}
	sent := w.credits()
	check(t, lease.Used("rpm", 3))
	check(t, lease.Used("tpd", 50))
	check(t, lease.Commit(bg))
	wantCredits(t, *sent, limiter.Credit{Amounts: rpm(2).And("tpd", -30), Spared: []string{"tpd"}})
	w.wantLeft(t, alice, "tpd", 10)
	if got := lease.Consumed(); got.Get("tpd") != 50 || got.Get("rpm") != 3 {
		t.Errorf("consumed %s", got)
	}
}

func TestRollbackOfASparedLimit(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), tokensShadow)
	w.take(t, alice, tpd(90))
	lease := w.take(t, alice, rpm(5).And("tpd", 20))
	sent := w.credits()
	check(t, lease.Rollback(bg))
	wantCredits(t, *sent, limiter.Credit{Amounts: rpm(5).And("tpd", 20), Undo: true, Spared: []string{"tpd"}})
	w.wantLeft(t, alice, "tpd", 10)
	w.wantLeft(t, alice, "rpm", 100)
}

// TestLeaseThatPaidAndWasSpared has a lease that holds both kinds of one limit. The
// credits keep them apart.
func TestLeaseThatPaidAndWasSpared(t *testing.T) {
	w := start(t, tokensShadow)
	lease := w.take(t, alice, tpd(90))
	check(t, lease.Consume(bg, tpd(20)))
	sent := w.credits()
	check(t, lease.Rollback(bg))
	wantCredits(t, *sent, limiter.Credit{Amounts: tpd(90), Undo: true}, limiter.Credit{
		Amounts: tpd(20), Undo: true, Spared: []string{"tpd"},
	})
	w.wantLeft(t, alice, "tpd", 100)
}

// TestGiveBackGoesFirstToWhatWasPaid releases part of a lease that holds both.
func TestGiveBackGoesFirstToWhatWasPaid(t *testing.T) {
	w := start(t, tokensShadow)
	lease := w.take(t, alice, tpd(90))
	check(t, lease.Consume(bg, tpd(20)))
	check(t, lease.Release(tpd(95)))
	sent := w.credits()
	check(t, lease.Commit(bg))
	wantCredits(t, *sent, limiter.Credit{Amounts: tpd(90)}, limiter.Credit{Amounts: tpd(5), Spared: []string{"tpd"}})
	w.wantLeft(t, alice, "tpd", 100)
}

func TestSparedParent(t *testing.T) {
	w := start(t, limiter.PerDay("tpd", 1000))
	w.family(t)
	check(t, w.SetLimits(bg, project, "", limiter.PerDay("tpd", 50).Shadow()))
	lease := w.take(t, alice, tpd(60))
	d := lease.Decision()
	if len(d.Statuses) != 2 || d.Statuses[0].WouldRefuse || !d.Statuses[1].WouldRefuse ||
		d.Statuses[1].Entity != project || !d.Admitted() {
		t.Errorf("decision %+v", d)
	}
	sent := w.credits()
	check(t, lease.Adjust(tpd(-10)))
	check(t, lease.Commit(bg))
	wantCredits(t, *sent, limiter.Credit{Amounts: tpd(10)}, limiter.Credit{Amounts: tpd(10), Spared: []string{"tpd"}})
	w.wantLeft(t, alice, "tpd", 950)
	w.wantLeft(t, project, "tpd", 50)
}

// TestLateConsumeIsGivenBackSpared ends a lease while a charge is under way that a
// shadow limit does not cover.
func TestLateConsumeIsGivenBackSpared(t *testing.T) {
	w := start(t, tokensShadow)
	lease := w.take(t, alice, tpd(90))
	w.store.onConsume = func(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
		out, err := w.store.Repository.Consume(ctx, now, c)
		check(t, lease.Commit(ctx))
		return out, err
	}
	sent := w.credits()
	is(t, lease.Consume(bg, tpd(20)), limiter.ErrLeaseDone)
	wantCredits(t, *sent, limiter.Credit{Amounts: tpd(20), Undo: true, Spared: []string{"tpd"}})
	w.wantLeft(t, alice, "tpd", 10)
}

func TestAdjustIsNotSpared(t *testing.T) {
	w := start(t, tokensShadow)
	for _, want := range []int64{30, -40} {
		d, err := w.Adjust(bg, request(alice, tpd(70)))
		check(t, err)
		if s := d.Statuses[0]; s.Available != want || s.Exceeded || s.WouldRefuse {
			t.Errorf("status %+v, want %d left", s, want)
		}
	}
	lease := w.take(t, alice, tpd(0))
	if !lease.Decision().Statuses[0].WouldRefuse {
		t.Error("an amount of zero passes a limit in debt")
	}
}

// TestShadowLimitsOfARefusal checks that only enforced limits count.
func TestShadowLimitsOfARefusal(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), tokensShadow)
	d := w.refuse(t, rpm(11).And("tpd", 101))
	if len(d.Violations()) != 1 || d.Primary().Limit.Name != "rpm" || !d.NeverFits() {
		t.Errorf("violations %+v", d.Violations())
	}
	if s := d.Passed()[0]; !s.WouldRefuse || s.NeverFits || s.RetryAfter != 0 || s.Deficit() != 0 {
		t.Errorf("shadow %+v", s)
	}
	if wait, err := w.TimeUntil(bg, request(alice, tpd(101))); err != nil || wait != 0 {
		t.Errorf("TimeUntil %v, %v", wait, err)
	}
}
