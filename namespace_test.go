package limiter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// tenant registers the namespace "tenant" and returns a world inside it, with a
// used bucket.
func (w *world) tenant(t *testing.T) (*world, limiter.Namespace) {
	t.Helper()
	spaces, err := w.RegisterNamespaces(bg, "tenant")
	check(t, err)
	view, err := w.Namespace(bg, "tenant")
	check(t, err)
	repo, err := w.store.Namespace(bg, "tenant")
	check(t, err)
	inside := &world{t: t, RateLimiter: view, store: &store{Repository: repo}, clock: w.clock}
	check(t, inside.SetSystemDefaults(bg, limiter.PerDay("rpm", 10)))
	inside.take(t, alice, rpm(3))
	return inside, spaces[0]
}

func (w *world) spaces(t *testing.T) (all []string) {
	t.Helper()
	for _, n := range collect(t, w.Namespaces(bg)) {
		state := "active"
		if !n.DeletedAt.IsZero() {
			state = "deleted"
		}
		all = append(all, n.Name+" "+state)
	}
	return all
}

func TestNamespacesAreApart(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 100))
	w.family(t)
	inside, _ := w.tenant(t)
	w.take(t, alice, rpm(50))
	inside.wantLeft(t, alice, "rpm", 7)
	w.wantLeft(t, alice, "rpm", 50)
	if got := collect(t, inside.Entities(bg)); got != nil {
		t.Errorf("entities of another namespace: %+v", got)
	}
	if got := collect(t, inside.AuditEvents(bg, alice, "")); got != nil {
		t.Errorf("events of another namespace: %+v", got)
	}
	if got := collect(
		t, inside.Usage(bg, limiter.UsageQuery{Entity: alice, Window: limiter.Hourly}),
	); len(got) != 1 || got[0].Counters["rpm"] != 3 {
		t.Errorf("usage: %+v", got)
	}
	other, err := inside.Namespace(bg, "default") // a view sees all of the store
	check(t, err)
	left, err := other.Available(bg, alice, resource)
	check(t, err)
	if left.Get("rpm") != 50 {
		t.Errorf("%v left, seen from a view", left)
	}
	check(t, inside.store.Close()) // a view's Close does nothing
	inside.take(t, alice, rpm(1))
}

// TestNamespaceIsNotMadeByUsingIt covers row D-12 of docs/defects.md: using a
// namespace does not register it.
func TestNamespaceIsNotMadeByUsingIt(t *testing.T) {
	w := start(t)
	_, err := w.Namespace(bg, "tenant")
	is(t, err, limiter.ErrNotFound)
	if got := w.spaces(t); !slices.Equal(got, []string{"default active"}) {
		t.Errorf("namespaces: %q", got)
	}
	first, err := w.RegisterNamespaces(bg, "tenant", "another")
	check(t, err)
	w.clock.pass(time.Hour)
	again, err := w.RegisterNamespaces(bg, "another", "tenant", "tenant")
	check(t, err)
	if diff := cmp.Diff([]limiter.Namespace{first[1], first[0], first[0]}, again); diff != "" {
		t.Errorf("registering twice: %s", diff)
	}
	if n := first[0]; n.Name != "tenant" || n.ID == "" || n.ID == first[1].ID || !n.CreatedAt.Equal(noon) {
		t.Errorf("registered as %+v", n)
	}
	if got := w.spaces(t); !slices.Equal(got, []string{"another active", "default active", "tenant active"}) {
		t.Errorf("namespaces: %q", got)
	}
}

// TestNamespaceNamesAreChecked covers rows 26 and B-21 of docs/defects.md: all
// names are checked before the first is written, and reserved namespaces cannot
// be deleted.
func TestNamespaceNamesAreChecked(t *testing.T) {
	w := start(t)
	for _, bad := range []string{"_", "", "a#b", "a/b", "/", "-a", "a\n", strings.Repeat("x", 257)} {
		_, err := w.RegisterNamespaces(bg, "fine", bad)
		invalid(t, err, "namespace")
	}
	for _, protected := range []string{"default", "_"} {
		invalid(t, w.DeleteNamespace(bg, protected), "namespace")
	}
	for _, tolerated := range []string{"a#b", "", "_"} { // another program may have registered it
		_, err := w.Namespace(bg, tolerated)
		is(t, err, limiter.ErrNotFound)
	}
	if got := w.spaces(t); !slices.Equal(got, []string{"default active"}) {
		t.Errorf("namespaces: %q", got)
	}
}

// TestDeleteNamespaceIsSeenAtOnce covers rows 12 and 23 of docs/defects.md: a
// delete is one step. A view learns of it with its next call, and the data stay
// under their ID.
func TestDeleteNamespaceIsSeenAtOnce(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 10))
	inside, space := w.tenant(t)
	lease := inside.take(t, alice, rpm(2))
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	is(t, w.DeleteNamespace(cancelled, "tenant"), context.Canceled)
	inside.take(t, alice, rpm(1)) // the namespace is unchanged

	w.clock.pass(1500 * time.Millisecond)
	check(t, w.DeleteNamespace(bg, "tenant"))
	is(t, w.DeleteNamespace(bg, "tenant"), limiter.ErrNotFound)
	_, err := w.Namespace(bg, "tenant")
	is(t, err, limiter.ErrNotFound)
	for _, n := range collect(t, w.Namespaces(bg)) {
		if n.ID == space.ID && !n.DeletedAt.Equal(noon.Add(time.Second)) {
			t.Errorf("listed as %+v", n)
		}
	}
	for name := range calls {
		if strings.Contains(name, "Namespace") || name == "Ping" {
			continue // not specific to this namespace
		}
		is(t, call(bg, inside.RateLimiter, name), limiter.ErrNotFound)
	}
	allow := request(alice, rpm(1))
	allow.OnUnavailable = limiter.Allow
	_, err = inside.Acquire(bg, allow)
	is(t, err, limiter.ErrNotFound) // not an outage
	check(t, lease.Rollback(bg))    // what was taken can still be settled

	recovered, err := w.RecoverNamespace(bg, space.ID)
	check(t, err)
	if diff := cmp.Diff(space, recovered); diff != "" {
		t.Error(diff)
	}
	inside.wantLeft(t, alice, "rpm", 6)
}

func TestNamespaceCanBeRegisteredAgain(t *testing.T) {
	w := start(t)
	_, old := w.tenant(t)
	check(t, w.DeleteNamespace(bg, "tenant"))
	fresh, space := w.tenant(t)
	if space.ID == old.ID {
		t.Error("the new namespace has the old ID")
	}
	fresh.wantLeft(t, alice, "rpm", 7) // its own bucket, not the old one
	if got := w.spaces(t); len(got) != 3 {
		t.Errorf("namespaces: %q", got)
	}
	_, err := w.RecoverNamespace(bg, old.ID)
	is(t, err, limiter.ErrExists) // the name is taken
	check(t, w.DeleteNamespace(bg, "tenant"))
	_, err = w.RecoverNamespace(bg, old.ID)
	check(t, err)
	_, err = w.RecoverNamespace(bg, space.ID)
	is(t, err, limiter.ErrExists)
}

// TestPurgeCannotDestroyALiveNamespace covers row 13 of docs/defects.md: recover
// and purge are state transitions, so a purge cannot delete an active namespace.
func TestPurgeCannotDestroyALiveNamespace(t *testing.T) {
	w := start(t)
	inside, space := w.tenant(t)
	is(t, w.PurgeNamespace(bg, space.ID), limiter.ErrConflict)
	_, err := w.RecoverNamespace(bg, space.ID)
	is(t, err, limiter.ErrConflict) // it is active
	inside.wantLeft(t, alice, "rpm", 7)

	check(t, w.DeleteNamespace(bg, "tenant"))
	check(t, w.PurgeNamespace(bg, space.ID))
	for _, err := range []error{w.PurgeNamespace(bg, space.ID), call(bg, inside.RateLimiter, "Acquire")} {
		is(t, err, limiter.ErrNotFound)
	}
	_, err = w.RecoverNamespace(bg, space.ID)
	is(t, err, limiter.ErrNotFound)
	if got := w.spaces(t); !slices.Equal(got, []string{"default active"}) {
		t.Errorf("namespaces: %q", got)
	}
	again, _ := w.tenant(t)
	if got := collect(t, again.AuditEvents(bg, "$SYSTEM", "")); len(got) != 1 {
		t.Errorf("%d events, want only its own", len(got))
	}
}

func TestRecoverAndPurgeDoNotBothWin(t *testing.T) {
	for range 100 {
		w := start(t)
		inside, space := w.tenant(t)
		check(t, w.DeleteNamespace(bg, "tenant"))
		var recovered, purged error
		var wg sync.WaitGroup
		wg.Go(func() { _, recovered = w.RecoverNamespace(bg, space.ID) })
		wg.Go(func() { purged = w.PurgeNamespace(bg, space.ID) })
		wg.Wait()
		switch {
		case recovered == nil:
			is(t, purged, limiter.ErrConflict)
			inside.wantLeft(t, alice, "rpm", 7)
		case purged == nil:
			if !errors.Is(recovered, limiter.ErrNotFound) && !errors.Is(recovered, limiter.ErrConflict) {
				t.Errorf("recover lost with %v", recovered)
			}
		default:
			t.Errorf("both lost: %v, %v", recovered, purged)
		}
	}
}

// TestNamespaceViewKeepsItsOptions checks that a view has the options of its
// limiter.
func TestNamespaceViewKeepsItsOptions(t *testing.T) {
	w := start(t)
	signed, _ := w.tenant(t)
	view, err := w.As("ops").Namespace(bg, "tenant")
	check(t, err)
	check(t, view.SetSystemDefaults(bg, limiter.PerDay("rpm", 9)))
	events := collect(t, signed.AuditEvents(bg, "$SYSTEM", ""))
	if len(events) != 2 || events[0].Principal != "ops" || events[1].Principal != "" || !events[0].At.Equal(noon) {
		t.Errorf("events: %+v", events)
	}
}

// TestNamespacesDoNotQueueBehindEachOther checks that each namespace has its own
// wait queues.
func TestNamespacesDoNotQueueBehindEachOther(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		defer w.queued(t)()
		inside, _ := w.tenant(t)
		began := time.Now()
		_, err := inside.Wait(bg, request(alice, rpm(1)))
		check(t, err)
		wantTook(t, began, 0)
	})
}
