package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// newTenant returns a program in a namespace of its own and the ID of that.
func (w *world) newTenant(other program) (ours goProgram, id string) {
	w.Helper()
	id = other.register("tenant")
	ours = w.anotherGo(&dynamo.Options{Namespace: "tenant", Exact: true, CacheTTL: cacheTTL})
	ours.set(gpt4, limiter.PerMinute("rpm", 100))
	w.mustAdmit(ours, "alice", rpm(10))
	return ours, id
}

func (w *world) checkNotFound(what string, err error) {
	w.Helper()
	if !errors.Is(err, limiter.ErrNotFound) {
		w.Errorf("%s: error %v, want not found", what, err)
	}
}

// TestOtherDeletesTheNamespace checks that a deleted namespace admits nothing
// once the cache has expired. A recovered one is as before.
func TestOtherDeletesTheNamespace(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		ours, id := w.newTenant(other)
		lease := ours.hold("alice", "gpt-4", rpm(10))
		other.deleteNamespace("tenant")
		lease.commit(rpm(-5))
		w.wait(cacheTTL)
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.checkNotFound("acquire", err)
		_, err = ours.lim.Available(w.Context(), "alice", "gpt-4")
		w.checkNotFound("available", err)
		w.checkNotFound("set limits", ours.lim.SetLimits(w.Context(), "alice", "gpt-4", limiter.PerMinute("rpm", 1)))
		_, err = ours.lim.CreateEntity(w.Context(), limiter.Entity{ID: "alice"})
		w.checkNotFound("create", err)
		other.recoverNamespace(id)
		w.wait(cacheTTL)
		w.mustAdmit(ours, "alice", rpm(100))
		w.mustRefuse(ours, "alice", rpm(1))
	})
}

// TestOtherDeletesTheNamespaceAndTakesItsName checks that a program stays in its
// namespace when the name refers to another.
func TestOtherDeletesTheNamespaceAndTakesItsName(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		ours, id := w.newTenant(other)
		other.deleteNamespace("tenant")
		anew := other.register("tenant")
		if anew == id {
			w.Fatal("the new namespace has the id of the old one")
		}
		w.wait(cacheTTL)
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.checkNotFound("acquire", err)
		w.Equal("items of the new one", len(w.keysMentioning(anew)), 2)
	})
}

// TestOtherPurgesTheNamespace checks that cached data restores no item of a
// purged namespace.
func TestOtherPurgesTheNamespace(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		ours, id := w.newTenant(other)
		gives, takes, undone := ours.hold("alice", "gpt-4", rpm(10)), ours.hold("alice", "gpt-4", rpm(10)), ours.hold("alice", "gpt-4", rpm(10))
		other.deleteNamespace("tenant")
		other.purgeNamespace(id)
		gives.commit(rpm(-5))
		takes.commit(rpm(5))
		undone.rollback()
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.checkNotFound("acquire", err)
		_, err = ours.lim.Acquire(w.Context(), requestOf("bob", "gpt-4", rpm(1)))
		w.checkNotFound("acquire by a new entity", err)
		w.wait(cacheTTL)
		w.checkNotFound("set limits", ours.lim.SetLimits(w.Context(), "alice", "gpt-4", limiter.PerMinute("rpm", 1)))
		w.Equal("items", w.keysMentioning(id), []string(nil))
	})
}

// TestOtherPurgesTheNamespaceOfAnExpiredBucket covers a late debit, which would
// recreate an expired bucket.
func TestOtherPurgesTheNamespaceOfAnExpiredBucket(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		ours, id := w.newTenant(other)
		lease := ours.hold("alice", "gpt-4", rpm(10))
		w.wait(cacheTTL / 2)
		other.deleteNamespace("tenant")
		other.purgeNamespace(id)
		lease.commit(rpm(5))
		w.Equal("items", w.keysMentioning(id), []string(nil))
	})
}

// TestOtherPurgesTheNamespaceBetweenOurReadAndOurWrite purges a namespace that
// we have just found active.
func TestOtherPurgesTheNamespaceBetweenOurReadAndOurWrite(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		id := other.register("tenant")
		view, err := w.Repo.Namespace(w.Context(), "tenant")
		w.Must(err)
		ours := w.newGo(view, func() time.Time { return w.clock.now })
		ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(ours, "alice", rpm(10))
		w.beforeRequest("UpdateItem", "alice", func() {
			other.deleteNamespace("tenant")
			other.purgeNamespace(id)
		})
		_, err = ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.checkNotFound("acquire", err)
		w.Equal("items", w.keysMentioning(id), []string(nil))
	})
}
