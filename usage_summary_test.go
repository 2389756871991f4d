package limiter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestUsageSummary(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000), limiter.PerDay("tpm", 1000))
	w.take(t, alice, rpm(1).And("tpm", 10))
	w.clock.pass(time.Hour)
	w.take(t, alice, rpm(2))
	w.clock.pass(time.Hour)
	w.take(t, alice, rpm(6).And("tpm", 20))
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	day, _ := limiter.Daily.Bounds(noon)
	total := map[string]int64{"rpm": 9, "tpm": 30}
	none := map[string]int64{}
	for _, c := range []struct {
		q    limiter.UsageQuery
		want limiter.UsageSummary
	}{
		{limiter.UsageQuery{Entity: alice}, limiter.UsageSummary{ // windows overlap, so the sum is hourly
			Windows: 3, Snapshots: 3, Total: total, Cascaded: none,
			Average: map[string]float64{"rpm": 3, "tpm": 15}, First: hour(0), Last: hour(2),
		}},
		{limiter.UsageQuery{Resource: resource, Window: limiter.Daily}, limiter.UsageSummary{
			Windows: 1, Snapshots: 1, Total: total, Cascaded: none,
			Average: map[string]float64{"rpm": 9, "tpm": 30}, First: day, Last: day,
		}},
		{limiter.UsageQuery{Entity: alice, From: hour(1), To: hour(1)}, limiter.UsageSummary{
			Windows: 1, Snapshots: 1, Total: map[string]int64{"rpm": 2}, Cascaded: none,
			Average: map[string]float64{"rpm": 2}, First: hour(1), Last: hour(1),
		}},
		{limiter.UsageQuery{Entity: "nobody"}, limiter.UsageSummary{
			Total: none, Cascaded: none, Average: map[string]float64{},
		}},
	} {
		got, err := w.UsageSummary(bg, c.q)
		check(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v:\n%s", c.q, diff)
		}
	}
}

// wantSum checks the totals and the cascaded amounts of a query after the hour
// has ended.
func (w *world) wantSum(t *testing.T, q limiter.UsageQuery, total, cascaded map[string]int64) limiter.UsageSummary {
	t.Helper()
	sum, err := w.UsageSummary(bg, q)
	check(t, err)
	if diff := cmp.Diff(total, sum.Total); diff != "" {
		t.Errorf("%+v, total:\n%s", q, diff)
	}
	if diff := cmp.Diff(cascaded, sum.Cascaded); diff != "" {
		t.Errorf("%+v, cascaded:\n%s", q, diff)
	}
	return sum
}

func (w *world) create(t *testing.T, id, parent string, cascade bool) {
	t.Helper()
	_, err := w.CreateEntity(bg, limiter.Entity{ID: id, Parent: parent, Cascade: cascade})
	check(t, err)
}

type counts = map[string]int64

// TestSummaryOfAResourceCountsACascadingCallOnce checks that a cascading call
// counts once, and that the part of the parent is reported as Cascaded.
func TestSummaryOfAResourceCountsACascadingCallOnce(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000), limiter.PerDay("tpm", 100_000))
	w.family(t)
	w.create(t, "bob", project, true)
	w.create(t, "carol", project, false)
	w.take(t, alice, rpm(1).And("tpm", 500))
	w.take(t, "bob", rpm(2))
	w.take(t, "carol", rpm(4)) // pays alone
	w.take(t, project, rpm(8)) // its own calls
	w.take(t, "dave", rpm(1))  // has no record
	byResource := limiter.UsageQuery{Resource: resource}
	sum := w.wantSum(t, byResource, counts{"rpm": 16, "tpm": 500}, counts{"rpm": 3, "tpm": 500})
	if sum.Windows != 1 || sum.Snapshots != 5 || sum.Average["rpm"] != 16 {
		t.Errorf("%d windows, %d snapshots, average %v", sum.Windows, sum.Snapshots, sum.Average)
	}
	// A query for an entity sums what that entity paid.
	w.wantSum(t, limiter.UsageQuery{Entity: project, Resource: resource}, counts{"rpm": 11, "tpm": 500}, counts{})

	// The next hour is another window.
	w.clock.pass(time.Hour)
	w.take(t, alice, rpm(10))
	sum = w.wantSum(t, byResource, counts{"rpm": 26, "tpm": 500}, counts{"rpm": 13, "tpm": 500})
	if sum.Windows != 2 || sum.Snapshots != 7 || sum.Average["rpm"] != 13 || sum.Average["tpm"] != 500 {
		t.Errorf("%d windows, %d snapshots, average %v", sum.Windows, sum.Snapshots, sum.Average)
	}
}

// TestSummaryCountsASparedCallOnce checks that a cascading call that the shadow
// limits of child and parent would have refused counts once, and that calls that
// the parent's limit alone would have refused count too.
func TestSummaryCountsASparedCallOnce(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 10).Shadow())
	w.family(t)
	w.create(t, "bob", project, true)
	for range 5 {
		w.take(t, alice, rpm(20)) // neither limit covers it
	}
	byResource := limiter.UsageQuery{Resource: resource}
	if got, want := w.wantSum(
		t, byResource, counts{"rpm": 100}, counts{"rpm": 100},
	).WouldRefuse, (counts{"rpm": 5}); !cmp.Equal(got, want) {
		t.Errorf("would refuse %v, want %v", got, want)
	}
	w.take(t, "bob", rpm(10))
	w.take(t, project, rpm(10)) // is empty by now
	for _, c := range []struct {
		q    limiter.UsageQuery
		want counts
	}{
		{byResource, counts{"rpm": 6}},
		{limiter.UsageQuery{Entity: project}, counts{"rpm": 6}},
		{limiter.UsageQuery{Entity: alice}, counts{"rpm": 5}},
		{limiter.UsageQuery{Entity: "bob"}, nil},
	} {
		got, err := w.UsageSummary(bg, c.q)
		check(t, err)
		if diff := cmp.Diff(c.want, got.WouldRefuse); diff != "" {
			t.Errorf("%+v:\n%s", c.q, diff)
		}
	}
}

// TestSummaryAfterAChildIsDeleted checks that the usage of a deleted child counts
// as usage of its parent.
func TestSummaryAfterAChildIsDeleted(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.family(t)
	w.create(t, "bob", project, true)
	w.take(t, alice, rpm(5))
	w.take(t, "bob", rpm(7))
	check(t, w.DeleteEntity(bg, "bob"))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 12}, counts{"rpm": 5})
}

// TestSummaryWithAParentThatLacksTheLimit checks that a parent without the limit
// has no part in its usage.
func TestSummaryWithAParentThatLacksTheLimit(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000), limiter.PerDay("tpm", 1000))
	check(t, w.SetLimits(bg, project, resource, limiter.PerDay("rpm", 1000)))
	w.family(t)
	w.take(t, alice, rpm(5).And("tpm", 50))
	w.take(t, project, rpm(1))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 6, "tpm": 50}, counts{"rpm": 5})
}

// TestSummaryNeverTakesMoreFromAParentThanItHas checks that usage of a child from
// before it cascaded does not lower the usage of its parent below 0.
func TestSummaryNeverTakesMoreFromAParentThanItHas(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.take(t, alice, rpm(50))
	w.take(t, project, rpm(2))
	w.family(t)
	w.take(t, alice, rpm(3))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 53}, counts{"rpm": 5})
}

// TestSummaryOfDeepTrees checks that a call counts once at every depth, also where a
// level between pays nothing.
func TestSummaryOfDeepTrees(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.family(t)
	w.create(t, project, "team", true)
	w.create(t, "team", "org", true)
	check(t, w.SetLimits(bg, "org", "", limiter.PerDay("rpm", 1000)))
	w.take(t, alice, rpm(5))
	w.take(t, project, rpm(20))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 25}, counts{"rpm": 2*5 + 2*20})
	// The team pays for the project, and not for alice: no limits are stored for it.
	w.take(t, "team", rpm(100))
	w.take(t, "org", rpm(300))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 425}, counts{"rpm": 2*5 + 2*20 + 100})
}

// TestSummaryOfExemptAncestors checks that the own calls of an ancestor that pays
// nothing for its descendants count.
func TestSummaryOfExemptAncestors(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.family(t)
	w.create(t, project, "team", true)
	w.take(t, alice, rpm(100))
	w.take(t, "team", rpm(5))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 105}, counts{"rpm": 100})
}

// TestSummaryOfOldTrees checks that a call of an entity from before deep trees counts
// for its parent, and not for its grandparent.
func TestSummaryOfOldTrees(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.storeOld(t, alice, project)
	w.storeOld(t, project, "org")
	w.take(t, alice, rpm(5))
	w.take(t, project, rpm(20))
	w.take(t, "org", rpm(100))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 125}, counts{"rpm": 25})
}

// TestSummaryOfACircle checks that a cycle of parents ends.
func TestSummaryOfACircle(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.storeOld(t, "a", "b")
	w.storeOld(t, "b", "a")
	w.take(t, "a", rpm(5))
	w.take(t, "b", rpm(7))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 12}, counts{"rpm": 12})
}

// TestSummaryOfAGiveBack checks that a net give-back lowers the total, down to
// the parent's counter. Below that, a give-back of the parent and an earlier call
// without cascade look alike.
func TestSummaryOfAGiveBack(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	w.family(t)
	lease := w.take(t, project, rpm(50))
	w.clock.pass(time.Hour)
	check(t, lease.Adjust(rpm(-10)))
	check(t, lease.Commit(bg))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 40}, counts{})
	w.take(t, alice, rpm(3))
	w.wantSum(t, limiter.UsageQuery{Resource: resource}, counts{"rpm": 50 - 7 + 3}, counts{})
}
