package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// tenant is a program in a namespace of its own that others are about to end.
func (w *world) tenant(other program) (ours goProgram, id string) {
	w.Helper()
	id = other.register("tenant")
	ours = w.goElse(&dynamo.Options{Namespace: "tenant", Exact: true, CacheTTL: factsLife})
	ours.set(gpt4, limiter.PerMinute("rpm", 100))
	w.admits(ours, "alice", rpm(10))
	return ours, id
}

func (w *world) notFound(what string, err error) {
	w.Helper()
	if !errors.Is(err, limiter.ErrNotFound) {
		w.Errorf("%s: error %v, want not found", what, err)
	}
}

// TestOtherDeletesTheNamespace: at the latest when what we know of it is old,
// nothing is admitted any more. Recovered, it is as it was.
func TestOtherDeletesTheNamespace(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		ours, id := w.tenant(other)
		lease := ours.hold("alice", "gpt-4", rpm(10))
		other.deleteSpace("tenant")
		lease.commit(rpm(-5))
		w.wait(factsLife)
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.notFound("acquire", err)
		_, err = ours.lim.Available(w.Context(), "alice", "gpt-4")
		w.notFound("available", err)
		w.notFound("set limits", ours.lim.SetLimits(w.Context(), "alice", "gpt-4", limiter.PerMinute("rpm", 1)))
		_, err = ours.lim.CreateEntity(w.Context(), limiter.Entity{ID: "alice"})
		w.notFound("create", err)
		other.recoverSpace(id)
		w.wait(factsLife)
		w.admits(ours, "alice", rpm(100))
		w.refuses(ours, "alice", rpm(1))
	})
}

// TestOtherDeletesTheNamespaceAndTakesItsName: the name leads elsewhere now, but
// we stay where we were.
func TestOtherDeletesTheNamespaceAndTakesItsName(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		ours, id := w.tenant(other)
		other.deleteSpace("tenant")
		anew := other.register("tenant")
		if anew == id {
			w.Fatal("the new namespace has the id of the old one")
		}
		w.wait(factsLife)
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.notFound("acquire", err)
		w.Equal("items of the new one", len(w.mentions(anew)), 2)
	})
}

// TestOtherPurgesTheNamespace: nothing of it comes back, though we remember it
// well.
func TestOtherPurgesTheNamespace(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		ours, id := w.tenant(other)
		gives, takes, undone := ours.hold("alice", "gpt-4", rpm(10)), ours.hold("alice", "gpt-4", rpm(10)), ours.hold("alice", "gpt-4", rpm(10))
		other.deleteSpace("tenant")
		other.purgeSpace(id)
		gives.commit(rpm(-5))
		takes.commit(rpm(5))
		undone.rollback()
		_, err := ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.notFound("acquire", err)
		_, err = ours.lim.Acquire(w.Context(), requestOf("bob", "gpt-4", rpm(1)))
		w.notFound("acquire by somebody new", err)
		w.wait(factsLife)
		w.notFound("set limits", ours.lim.SetLimits(w.Context(), "alice", "gpt-4", limiter.PerMinute("rpm", 1)))
		w.Equal("items", w.mentions(id), []string(nil))
	})
}

// TestOtherPurgesTheNamespaceOfAnExpiredBucket: what is used late would make the
// bucket again.
func TestOtherPurgesTheNamespaceOfAnExpiredBucket(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		ours, id := w.tenant(other)
		lease := ours.hold("alice", "gpt-4", rpm(10))
		w.wait(factsLife / 2)
		other.deleteSpace("tenant")
		other.purgeSpace(id)
		lease.commit(rpm(5))
		w.Equal("items", w.mentions(id), []string(nil))
	})
}

// TestOtherPurgesTheNamespaceBetweenOurReadAndOurWrite: we have just seen that it
// is there.
func TestOtherPurgesTheNamespaceBetweenOurReadAndOurWrite(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		id := other.register("tenant")
		view, err := w.Repo.Namespace(w.Context(), "tenant")
		w.Must(err)
		ours := w.goOn(view, func() time.Time { return w.clock.now })
		ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.admits(ours, "alice", rpm(10))
		w.beforeOur("UpdateItem", "alice", func() {
			other.deleteSpace("tenant")
			other.purgeSpace(id)
		})
		_, err = ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
		w.notFound("acquire", err)
		w.Equal("items", w.mentions(id), []string(nil))
	})
}
