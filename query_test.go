package limiter_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestExplainIsWhatAcquireWouldDo(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	w.family(t)
	check(t, w.SetLimits(bg, project, "", limiter.PerMinute("rpm", 8)))
	check(t, w.SetResourceDefaults(bg, resource, limiter.PerMinute("rpm", 10)))
	w.take(t, alice, rpm(5))
	for _, ask := range []int64{0, 1, 3, 4, 5, 6, 11} {
		before := w.dump(t)
		d, err := w.Explain(bg, request(alice, rpm(ask)))
		check(t, err)
		if diff := cmp.Diff(before, w.dump(t)); diff != "" {
			t.Errorf("Explain wrote:\n%s", diff)
		}
		lease, err := w.Acquire(bg, request(alice, rpm(ask)))
		var want limiter.Decision
		if err != nil {
			want = exceeded(t, err)
		} else {
			want = lease.Decision()
			check(t, lease.Rollback(bg))
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("rpm %d:\n%s", ask, diff)
		}
		if d.Statuses[0].Source != "resource" || d.Statuses[1].Source != "entity_default" {
			t.Errorf("from %s and %s", d.Statuses[0].Source, d.Statuses[1].Source)
		}
	}
}

func TestExplainMayAskForNothing(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	d, err := w.Explain(bg, limiter.Request{Entity: alice, Resource: resource})
	check(t, err)
	want := limiter.Decision{Statuses: []limiter.Status{{
		Entity: alice, Resource: resource, Source: "system", Limit: limiter.PerMinute("rpm", 10), Available: 10,
	}}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if n := w.buckets(t, alice); n != 0 {
		t.Error("a look made a bucket")
	}
	d, err = w.Explain(bg, limiter.Request{
		Entity: alice, Resource: resource, Limits: []limiter.Limit{limiter.PerDay("x", 3)},
	})
	check(t, err)
	if s := d.Statuses[0]; s.Source != "override" || s.Limit.Name != "x" {
		t.Errorf("explained by %+v", s)
	}
}

func TestTimeUntil(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 600))
	w.family(t)
	want := func(amounts limiter.Amounts, want time.Duration) {
		t.Helper()
		got, err := w.TimeUntil(bg, request(alice, amounts))
		check(t, err)
		if got != want {
			t.Errorf("%v: %v, want %v", amounts, got, want)
		}
	}
	want(rpm(60), 0)
	w.take(t, alice, rpm(50).And("tpm", 600))
	want(rpm(10), 0)
	want(rpm(11), 1001*time.Millisecond)
	want(rpm(11).And("tpm", 100), 10_001*time.Millisecond)
	w.take(t, project, rpm(10)) // row B-15 of docs/defects.md: the parent counts
	want(rpm(10), 10_001*time.Millisecond)
	w.clock.pass(10 * time.Second)
	want(rpm(10), 0)
}

// TestAvailableIncludesTheParent covers row B-15 of docs/defects.md: Available
// returns the lower balance of entity and parent, in one read.
func TestAvailableIncludesTheParent(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	w.family(t)
	check(t, w.SetLimits(bg, project, "", limiter.PerMinute("tpm", 60), limiter.PerMinute("ppm", 5)))
	reads := 0
	w.store.onPeek = func(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
		reads++
		return w.store.Repository.Peek(ctx, now, c)
	}
	want := func(want limiter.Amounts) {
		t.Helper()
		got, err := w.Available(bg, alice, resource)
		check(t, err)
		if !got.Equal(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want(rpm(10).And("tpm", 60).And("ppm", 5))
	lease := w.take(t, alice, rpm(3).And("tpm", 50))
	want(rpm(7).And("tpm", 10).And("ppm", 5))
	check(t, lease.Adjust(tpm(30)))
	check(t, lease.Commit(bg))
	want(rpm(7).And("tpm", -20).And("ppm", 5))
	if reads != 3 {
		t.Errorf("%d reads for 3 questions", reads)
	}
}

func TestStatusListsEveryBucket(t *testing.T) {
	w := start(t, limiter.PerMinute("tpm", 100), limiter.PerMinute("rpm", 10))
	if s, err := w.Status(bg, alice); err != nil || s != nil {
		t.Errorf("of an entity that used nothing: %v, %v", s, err)
	}
	w.take(t, alice, rpm(1))
	w.take(t, "bob", rpm(1))
	_, err := w.Acquire(bg, limiter.Request{Entity: alice, Resource: "claude", Consume: tpm(100)})
	check(t, err)
	got, err := w.Status(bg, alice)
	check(t, err)
	status := func(resource string, l limiter.Limit, available int64, full time.Duration) limiter.Status {
		return limiter.Status{
			Entity: alice, Resource: resource, Source: "system", Limit: l, Available: available,
			FullAfter: full,
		}
	}
	want := []limiter.Status{
		status("claude", limiter.PerMinute("rpm", 10), 10, 0),
		status("claude", limiter.PerMinute("tpm", 100), 0, 60_001*time.Millisecond),
		status(resource, limiter.PerMinute("rpm", 10), 9, 6001*time.Millisecond),
		status(resource, limiter.PerMinute("tpm", 100), 100, 0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCapacityAddsUpOneLimit(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	w.family(t)
	_, err := w.CreateEntity(bg, limiter.Entity{ID: project})
	check(t, err)
	check(t, w.SetLimits(bg, project, "", limiter.PerMinute("rpm", 40)))
	lease := w.take(t, alice, rpm(10)) // the project pays too
	check(t, lease.Adjust(rpm(5)))
	check(t, lease.Commit(bg))
	w.take(t, "stranger", rpm(1))
	_, err = w.Acquire(bg, limiter.Request{Entity: alice, Resource: "claude", Consume: rpm(1)})
	check(t, err)

	got, err := w.Capacity(bg, limiter.CapacityQuery{Resource: resource, Limit: "rpm"})
	check(t, err)
	var entities []string
	for _, s := range got.Entities {
		entities = append(entities, s.Entity)
	}
	if diff := cmp.Diff([]string{alice, project, "stranger"}, entities); diff != "" {
		t.Error(diff)
	}
	if got.Total != 60 || got.Available != -5+25+9 || math.Abs(got.Utilization()-51.666) > 0.001 {
		t.Errorf("%d of %d, %f %%", got.Available, got.Total, got.Utilization())
	}
	if u := (limiter.ResourceCapacity{Total: 10, Available: -5}).Utilization(); u != 150 {
		t.Errorf("in debt: %f %%", u)
	}

	got, err = w.Capacity(bg, limiter.CapacityQuery{Resource: resource, Limit: "rpm", ParentsOnly: true})
	check(t, err)
	if len(got.Entities) != 1 || got.Entities[0].Entity != project || got.Total != 40 {
		t.Errorf("parents only: %+v", got)
	}
	got, err = w.Capacity(bg, limiter.CapacityQuery{Resource: resource, Limit: "unused"})
	check(t, err)
	if got.Total != 0 || got.Utilization() != 0 || got.Entities != nil {
		t.Errorf("a limit that no entity has: %+v", got)
	}
}

// TestStatusOfLimitsThatARequestBrought checks the source of limits that no level
// stores.
func TestStatusOfLimitsThatARequestBrought(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(1))
	check(t, w.SetResourceDefaults(bg, resource, limiter.PerMinute("rpm", 10)))
	_, err := w.Acquire(bg, limiter.Request{
		Entity: project, Resource: "batch", Consume: limiter.Tokens("runs", 1),
		Limits: []limiter.Limit{limiter.PerDay("runs", 4)},
	})
	check(t, err)
	check(t, w.DeleteSystemDefaults(bg))
	for entity, want := range map[string]string{alice: "resource", project: "override"} {
		all, err := w.Status(bg, entity)
		check(t, err)
		if len(all) != 1 || all[0].Source != want {
			t.Errorf("%s: %+v, want a limit from %s", entity, all, want)
		}
	}
	sum, err := w.Capacity(bg, limiter.CapacityQuery{Resource: "batch", Limit: "runs"})
	check(t, err)
	if len(sum.Entities) != 1 || sum.Entities[0].Source != "override" {
		t.Errorf("capacity: %+v", sum)
	}
	check(t, w.DeleteResourceDefaults(bg, resource))
	all, err := w.Status(bg, alice)
	check(t, err)
	if len(all) != 1 || all[0].Source != "override" {
		t.Errorf("after the level is deleted: %+v", all)
	}
}
