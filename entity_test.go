package limiter_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestEntityIsStoredAsReturned(t *testing.T) {
	w := start(t)
	w.clock.pass(1234 * time.Millisecond)
	metadata := map[string]string{"tier": "gold"}
	for _, c := range []struct{ in, want limiter.Entity }{
		{limiter.Entity{ID: "a"}, limiter.Entity{ID: "a", Name: "a"}},
		{
			limiter.Entity{
				ID: "b", Name: "Bee", Parent: "a", Cascade: true, Metadata: metadata,
				CreatedAt: time.Unix(7, 0),
			},
			limiter.Entity{ID: "b", Name: "Bee", Parent: "a", Cascade: true, Metadata: maps.Clone(metadata)},
		},
		{limiter.Entity{ID: "c", Metadata: map[string]string{}}, limiter.Entity{ID: "c", Name: "c"}},
	} {
		c.want.CreatedAt = noon.Add(time.Second) // in whole seconds
		c.want.Generation = noon.Add(1234 * time.Millisecond).UnixMilli()
		created, err := w.CreateEntity(bg, c.in)
		check(t, err)
		metadata["tier"] = "changed later"
		stored, err := w.Entity(bg, c.in.ID)
		check(t, err)
		if diff := cmp.Diff(c.want, created); diff != "" {
			t.Errorf("returned: %s", diff)
		}
		if diff := cmp.Diff(c.want, stored); diff != "" {
			t.Errorf("stored: %s", diff)
		}
		metadata["tier"] = "gold"
	}
	_, err := w.CreateEntity(bg, limiter.Entity{ID: "a", Name: "again"})
	is(t, err, limiter.ErrExists)
	_, err = w.Entity(bg, "nobody")
	is(t, err, limiter.ErrNotFound)
}

// TestCascadeNeedsAParent covers row D-11 of docs/defects.md: an entity cannot
// cascade without a parent. The parent may be created later, or never, as long as
// it has limits.
func TestCascadeNeedsAParent(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Cascade: true})
	invalid(t, err, "cascade")
	_, err = w.Entity(bg, alice)
	is(t, err, limiter.ErrNotFound)

	w.family(t)
	w.take(t, alice, rpm(1))
	w.wantLeft(t, project, "rpm", 9)
	_, err = w.CreateEntity(bg, limiter.Entity{ID: project})
	check(t, err)
	w.take(t, alice, rpm(1))
	w.wantLeft(t, project, "rpm", 8)

	check(t, w.DeleteSystemDefaults(bg))
	check(t, w.SetLimits(bg, alice, "", limiter.PerMinute("rpm", 10)))
	_, err = w.Acquire(bg, request(alice, rpm(1))) // a parent without limits
	is(t, err, limiter.ErrNoLimits)
}

func TestDeleteEntityTakesEverythingButAudit(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.family(t)
	_, err := w.CreateEntity(bg, limiter.Entity{ID: "child", Parent: alice, Cascade: true})
	check(t, err)
	check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 5)))
	check(t, w.SetLimits(bg, alice, "", limiter.PerMinute("rpm", 6)))
	w.take(t, alice, rpm(5))
	w.take(t, "bob", rpm(1))

	check(t, w.DeleteEntity(bg, alice))
	_, err = w.Entity(bg, alice)
	is(t, err, limiter.ErrNotFound)
	for _, r := range []string{resource, ""} {
		if l, err := w.Limits(bg, alice, r); err != nil || l != nil {
			t.Errorf("limits are left: %v, %v", l, err)
		}
	}
	if n := w.buckets(t, alice); n != 0 {
		t.Errorf("%d buckets are left", n)
	}
	if u := collect(t, w.Usage(bg, limiter.UsageQuery{Entity: alice})); u != nil {
		t.Errorf("usage is left: %+v", u)
	}
	if n := len(collect(t, w.AuditEvents(bg, alice, ""))); n != 4 {
		t.Errorf("%d audit events, want 4", n)
	}
	if _, err := w.Entity(bg, "child"); err != nil {
		t.Errorf("its child is gone: %v", err)
	}
	w.wantLeft(t, "bob", "rpm", 9)
	w.take(t, alice, rpm(10)) // a full bucket under the system limits, without a parent
	w.wantLeft(t, project, "rpm", 5)
}

// TestDeleteEntityWithoutARecord covers row 11 of docs/defects.md: an entity
// without a record can be deleted, and its limits leave the registry.
func TestDeleteEntityWithoutARecord(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 5)))
	w.take(t, "bob", rpm(1))
	for _, e := range []string{alice, "bob"} {
		check(t, w.DeleteEntity(bg, e))
		is(t, w.DeleteEntity(bg, e), limiter.ErrNotFound)
	}
	names, err := w.ResourcesWithLimits(bg)
	check(t, err)
	if len(names) != 0 {
		t.Errorf("still listed: %q", names)
	}
}

// TestLongListsAreComplete covers row B-30 of docs/defects.md: lists are
// complete, and deletes leave nothing behind.
func TestLongListsAreComplete(t *testing.T) {
	const n = 2500
	w := start(t, limiter.PerMinute("rpm", 10))
	for i := range n {
		_, err := w.CreateEntity(bg, limiter.Entity{
			ID: fmt.Sprintf("key-%04d", i), Parent: project, Metadata: map[string]string{"i": fmt.Sprint(i)},
		})
		check(t, err)
		w.take(t, fmt.Sprintf("key-%04d", i), rpm(1))
		_, err = w.Acquire(bg, limiter.Request{Entity: "hoarder", Resource: fmt.Sprintf("r%04d", i), Consume: rpm(1)})
		check(t, err)
	}
	i := 0
	for e, err := range w.Children(bg, project) {
		check(t, err)
		if want := fmt.Sprintf("key-%04d", i); e.ID != want {
			t.Fatalf("child %d is %s", i, e.ID)
		}
		i++
	}
	all := len(collect(t, w.Entities(bg)))
	capacity, err := w.Capacity(bg, limiter.CapacityQuery{Resource: resource, Limit: "rpm"})
	check(t, err)
	statuses, err := w.Status(bg, "hoarder")
	check(t, err)
	if i != n || all != n || len(capacity.Entities) != n || capacity.Total != 10*n || len(statuses) != n {
		t.Errorf("%d children, %d entities, %d in the capacity, %d buckets; want %d", i, all,
			len(capacity.Entities), len(statuses), n)
	}
	check(t, w.DeleteEntity(bg, "hoarder"))
	if left := w.buckets(t, "hoarder"); left != 0 {
		t.Errorf("%d buckets are left", left)
	}
	events := collect(t, w.AuditEvents(bg, "hoarder", ""))
	if got := events[0].Details["records_deleted"]; got != int64(n*4) { // a bucket and three windows of usage each
		t.Errorf("%v records deleted", got)
	}
}

// TestLoopsMayCallBack checks that a sequence holds no lock while the loop body
// runs, so that the body can call the limiter.
func TestLoopsMayCallBack(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	for _, e := range []string{"a", "b", "c"} {
		_, err := w.CreateEntity(bg, limiter.Entity{ID: e})
		check(t, err)
	}
	seen := 0
	for e, err := range w.Entities(bg) {
		check(t, err)
		w.take(t, e.ID, rpm(1))
		check(t, w.DeleteEntity(bg, e.ID))
		if seen++; seen == 2 {
			break
		}
	}
	if got := collect(t, w.Entities(bg)); len(got) != 1 || got[0].ID != "c" {
		t.Errorf("left: %+v", got)
	}
}

func TestTextIsUTF8(t *testing.T) {
	w := start(t)
	_, err := w.CreateEntity(bg, limiter.Entity{ID: "a", Name: "\xff"})
	invalid(t, err, "name")
	_, err = w.CreateEntity(bg, limiter.Entity{ID: "a", Metadata: map[string]string{"k": "v\xfe"}})
	invalid(t, err, "metadata")
}

// TestChain checks that Chain names the entities that charges reach, with and without
// records.
func TestChain(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.create(t, alice, project, true)
	w.create(t, project, "team", true)
	w.create(t, "team", "org", true)
	w.create(t, "loose", project, false)
	w.storeOld(t, "old", project)
	for id, want := range map[string][]string{
		alice: {alice, project, "team", "org"}, "org": {"org"}, "unknown": {"unknown"}, "loose": {"loose"},
		"old": {"old", project},
	} {
		all, err := w.Chain(bg, id)
		check(t, err)
		var got []string
		for _, e := range all {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reaches %v, want %v", id, got, want)
		}
	}
}
