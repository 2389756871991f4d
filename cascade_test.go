package limiter_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestCascadeChargesChildAndParentOrNeither(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.family(t)
	lease := w.take(t, alice, rpm(3))
	w.wantLeft(t, alice, "rpm", 7)
	w.wantLeft(t, project, "rpm", 7)
	w.take(t, project, rpm(6)) // on its own account
	w.refuse(t, rpm(2))
	w.wantLeft(t, alice, "rpm", 7)
	w.wantLeft(t, project, "rpm", 1)
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 10)
	w.wantLeft(t, project, "rpm", 4)
}

func TestChildWithoutCascadePaysAlone(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: project})
	check(t, err)
	w.take(t, alice, rpm(3))
	if n := w.buckets(t, project); n != 0 {
		t.Error("the parent was charged")
	}
}

// TestEachAccountPaysTheLimitsItHas checks that an account pays only the amounts
// of its own limits.
func TestEachAccountPaysTheLimitsItHas(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.family(t)
	check(t, w.SetLimits(bg, project, "", limiter.PerMinute("tpm", 100)))
	lease := w.take(t, alice, rpm(1).And("tpm", 40))
	w.wantLeft(t, alice, "rpm", 9)
	w.wantLeft(t, project, "tpm", 60)
	check(t, lease.Adjust(tpm(10).And("rpm", 1)))
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "rpm", 8)
	w.wantLeft(t, project, "tpm", 50)
	_, err := w.Acquire(bg, request(alice, limiter.Tokens("xpm", 1)))
	invalid(t, err, "consume")
}

// TestChildThatHadEnoughIsNotBlamed covers rows B-13 and B-14 of docs/defects.md:
// if only the parent refuses, the child is reported with its balance and without
// a violation.
func TestChildThatHadEnoughIsNotBlamed(t *testing.T) {
	w := start(t, limiter.Custom("rpm", 10, 1, time.Hour)) // slow, so its wait would be the longest
	w.family(t)
	check(t, w.SetLimits(bg, project, resource, limiter.PerMinute("rpm", 8), limiter.PerMinute("tpm", 100)))
	w.take(t, alice, rpm(6))

	ex := w.refuse(t, rpm(4)) // the child has exactly 4, the parent 2
	var got []string
	for _, s := range ex.Statuses {
		got = append(got, s.Entity+"/"+s.Limit.Name)
	}
	if want := []string{"alice/rpm", "project-1/rpm", "project-1/tpm"}; !slices.Equal(got, want) {
		t.Fatalf("statuses of %v, want %v", got, want)
	}
	child, parent := ex.Statuses[0], ex.Statuses[1]
	if child.Exceeded || child.Available != 4 || child.Requested != 4 || child.RetryAfter != 0 {
		t.Errorf("the child is reported as %+v", child)
	}
	if !parent.Exceeded || parent.Available != 2 || ex.Primary() != parent ||
		ex.RetryAfter() != 15_001*time.Millisecond {
		t.Errorf("the parent is reported as %+v, the wait as %v", parent, ex.RetryAfter())
	}
	if v, p := ex.Violations(), ex.Passed(); len(v) != 1 || len(p) != 2 {
		t.Errorf("%d violations and %d passed", len(v), len(p))
	}
}

func TestParentIsReportedWhenTheChildRefuses(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.family(t)
	check(t, w.SetLimits(bg, project, resource, limiter.PerMinute("rpm", 100)))
	w.take(t, alice, rpm(10))
	ex := w.refuse(t, rpm(1))
	if len(ex.Statuses) != 2 || ex.Statuses[1].Entity != project || ex.Statuses[1].Exceeded ||
		ex.Statuses[1].Available != 90 {
		t.Errorf("statuses: %+v", ex.Statuses)
	}
}

// TestEntityFactsAreNeverStale covers row B-19 of docs/defects.md: the stored
// entity decides, at once and for every bucket.
func TestEntityFactsAreNeverStale(t *testing.T) {
	t.Run("B-19 entity created after its bucket", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 10))
		w.take(t, alice, rpm(1))
		w.take(t, alice, rpm(1))
		w.family(t)
		for range 3 {
			w.take(t, alice, rpm(1))
		}
		w.wantLeft(t, alice, "rpm", 5)
		w.wantLeft(t, project, "rpm", 7)
		check(t, w.DeleteEntity(bg, alice))
		w.take(t, alice, rpm(1))
		w.wantLeft(t, project, "rpm", 7)
	})
	t.Run("B-19 bucket first made on behalf of a child", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 10))
		w.family(t)
		_, err := w.CreateEntity(bg, limiter.Entity{ID: project, Parent: "org", Cascade: true})
		check(t, err)
		w.take(t, alice, rpm(1))
		w.take(t, project, rpm(2)) // cascades itself
		w.take(t, project, rpm(2))
		w.wantLeft(t, project, "rpm", 5)
		w.wantLeft(t, "org", "rpm", 6)
	})
	t.Run("B-19 a grandparent does not pay", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 10))
		_, err := w.CreateEntity(bg, limiter.Entity{ID: project, Parent: "org", Cascade: true})
		check(t, err)
		w.family(t)
		w.take(t, project, rpm(1))
		for range 3 {
			check(t, w.take(t, alice, rpm(1)).Commit(bg))
		}
		w.wantLeft(t, project, "rpm", 6)
		w.wantLeft(t, "org", "rpm", 9)
	})
	t.Run("B-19 no one is its own parent", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 10))
		_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: alice, Cascade: true})
		invalid(t, err, "parent_id")
		is(t, last(w.Entities(bg)), nil)
		w.take(t, alice, rpm(1))
		w.wantLeft(t, alice, "rpm", 9)
	})
}

// storeOld stores an entity as releases before deep trees did.
func (w *world) storeOld(t *testing.T, id, parent string) {
	t.Helper()
	e := limiter.Entity{ID: id, Name: id, Parent: parent, Cascade: true}
	check(t, w.store.CreateEntity(bg, e, limiter.AuditEvent{ID: id, At: noon}))
}

// TestGiveBackFollowsTheChainsThatPaid checks that what comes back goes to the chain of
// the last charge first, and that every entity of both chains gets all of its own.
func TestGiveBackFollowsTheChainsThatPaid(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100))
	for _, id := range []string{"team-1", "team-2", "org"} {
		check(t, w.SetLimits(bg, id, "", limiter.PerDay("rpm", 100)))
	}
	create := func(id, parent string) {
		t.Helper()
		_, err := w.CreateEntity(bg, limiter.Entity{ID: id, Parent: parent, Cascade: parent != ""})
		check(t, err)
	}
	create(alice, project)
	create(project, "team-1")
	create("team-1", "org")
	create("team-2", "org")

	lease := w.take(t, alice, rpm(10))
	check(t, w.DeleteEntity(bg, project))
	create(project, "team-2")
	check(t, lease.Consume(bg, rpm(10)))
	want := func(when string, left map[string]int64) {
		t.Helper()
		for id, n := range left {
			if got := w.left(t, id, "rpm"); got != n {
				t.Errorf("%s: %s has %d left, want %d", when, id, got, n)
			}
		}
	}
	want("charged", map[string]int64{alice: 80, "team-1": 90, "team-2": 90, "org": 80})

	check(t, lease.Release(rpm(15)))
	check(t, lease.Flush(bg))
	want("released", map[string]int64{alice: 95, "team-1": 95, "team-2": 100, "org": 95})
	check(t, lease.Adjust(rpm(7)))
	check(t, lease.Flush(bg))
	want("used more", map[string]int64{alice: 88, "team-1": 95, "team-2": 93, "org": 88})
	check(t, lease.Rollback(bg))
	want("rolled back", map[string]int64{alice: 100, "team-1": 100, "team-2": 100, "org": 100})
}

// TestFlushPaysByTheChainOfItsBegin checks that tokens that a Flush takes belong to the
// chain that paid them, although another one pays by the time it ends.
func TestFlushPaysByTheChainOfItsBegin(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100))
	for _, id := range []string{"team-1", "team-2"} {
		check(t, w.SetLimits(bg, id, "", limiter.PerDay("rpm", 100)))
	}
	place := func(team string) {
		_, err := w.CreateEntity(bg, limiter.Entity{ID: project, Parent: team, Cascade: true})
		check(t, err)
	}
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: project, Cascade: true})
	check(t, err)
	place("team-1")

	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(5)))
	w.store.onCredit = func(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
		w.store.onCredit = nil
		check(t, w.store.Repository.Credit(ctx, now, credits...))
		check(t, w.DeleteEntity(ctx, project))
		place("team-2")
		return lease.Consume(ctx, rpm(10))
	}
	check(t, lease.Flush(bg))
	w.wantLeft(t, "team-1", "rpm", 85)
	w.wantLeft(t, "team-2", "rpm", 90)

	check(t, lease.Release(rpm(25)))
	check(t, lease.Commit(bg))
	for _, id := range []string{alice, "team-1", "team-2"} {
		w.wantLeft(t, id, "rpm", 100)
	}
}

// TestMutualParentsDoNotDeadlock checks that two entities that are parents of
// each other charge one another, each once. Only older releases store them.
func TestMutualParentsDoNotDeadlock(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.storeOld(t, alice, "bob")
	w.storeOld(t, "bob", alice)
	done := make(chan struct{})
	for _, e := range []string{alice, "bob"} {
		go func() {
			for range 2 {
				_, _ = w.Acquire(bg, request(e, rpm(1)))
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	w.wantLeft(t, alice, "rpm", 6)
	w.wantLeft(t, "bob", "rpm", 6)
}

// TestConsumedCountsTheEntityOnce covers row D-7 of docs/defects.md: Consumed
// reports the charge of the entity, not the sum over accounts.
func TestConsumedCountsTheEntityOnce(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	w.family(t)
	lease := w.take(t, alice, rpm(3))
	check(t, lease.Adjust(tpm(50)))
	check(t, lease.Consume(bg, rpm(2)))
	if got, want := lease.Consumed(), rpm(5).And("tpm", 50); !got.Equal(want) {
		t.Errorf("consumed %q, want %q", got, want)
	}
	check(t, lease.Flush(bg))
	if got, want := lease.Consumed(), rpm(5).And("tpm", 50); !got.Equal(want) {
		t.Errorf("consumed %q after the flush, want %q", got, want)
	}
	w.wantLeft(t, project, "rpm", 5)
	w.wantLeft(t, project, "tpm", 50)
}
