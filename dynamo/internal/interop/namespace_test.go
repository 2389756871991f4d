package interop

import (
	"errors"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// states returns the namespaces by name as Go lists them: active, deleted or
// purging.
func (w *world) states() map[string]string {
	w.Helper()
	states := map[string]string{}
	for _, n := range dynamotest.Collect(w.T, w.ours.lim.Namespaces(w.Context())) {
		switch {
		case n.Purging:
			states[n.Name] = "purging"
		case !n.DeletedAt.IsZero():
			states[n.Name] = "deleted"
		default:
			states[n.Name] = "active"
		}
	}
	return states
}

// namespaceNames returns the namespaces that Python lists as active and as
// recoverable.
func (p pyProgram) namespaceNames() (active, orphans []string) {
	p.Helper()
	var all []struct {
		Name string `json:"name"`
	}
	p.call("list_namespaces", nil, &all)
	for _, n := range all {
		active = append(active, n.Name)
	}
	var gone []struct {
		Name string `json:"namespace"`
	}
	p.call("list_orphan_namespaces", nil, &gone)
	for _, n := range gone {
		orphans = append(orphans, n.Name)
	}
	slices.Sort(active)
	return active, orphans
}

// TestInteropNamespacesAreShared checks that each library sees the namespaces
// that the other registers, deletes, recovers and purges.
func TestInteropNamespacesAreShared(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, p := range [][2]program{{w.ours, py}, {py, w.ours}} {
			one, other := p[0], p[1]
			id := one.register("tenant")
			w.Equal("id", other.register("tenant"), id)
			tenant := w.anotherGo(&dynamo.Options{Namespace: "tenant"})
			tenant.set(limiter.Scope{}, limiter.PerMinute("rpm", 10))
			w.mustAdmit(tenant, "alice", rpm(1))
			w.Equal("states", w.states(), map[string]string{"default": "active", "tenant": "active"})
			one.deleteNamespace("tenant")
			w.checkTenant(py, "deleted", []string{"default"}, []string{"tenant"})
			other.recoverNamespace(id)
			w.checkTenant(py, "active", []string{"default", "tenant"}, nil)
			w.Equal("id", one.register("tenant"), id)
			other.deleteNamespace("tenant")
			w.checkTenant(py, "deleted", []string{"default"}, []string{"tenant"})
			one.purgeNamespace(id)
			w.checkTenant(py, "", []string{"default"}, nil)
			w.Equal("items", w.SortKeys(id+"/ENTITY#alice"), []string(nil))
			w.Equal("items", w.SortKeys(id+"/SYSTEM#"), []string(nil))
		}
	})
}

// checkTenant checks what both libraries report about the namespace tenant, and
// the names of all namespaces.
func (w *world) checkTenant(py pyProgram, state string, active, orphans []string) {
	w.Helper()
	w.Equal("state in Go", w.states()["tenant"], state)
	_, err := w.ours.lim.Namespace(w.Context(), "tenant")
	if (state == "active") != (err == nil) || err != nil && !errors.Is(err, limiter.ErrNotFound) {
		w.Errorf("the namespace is %q, and to open it says %v", state, err)
	}
	gotActive, gotOrphans := py.namespaceNames()
	w.Equal("active in Python", gotActive, active)
	w.Equal("orphans in Python", gotOrphans, orphans)
}

// TestInteropNamespacesAreApart checks that equal names in two namespaces are
// two buckets.
func TestInteropNamespacesAreApart(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		py.register("tenant")
		tenant := w.anotherGo(&dynamo.Options{Namespace: "tenant"})
		tenant.set(limiter.Scope{}, limiter.PerMinute("rpm", 10))
		py.set(limiter.Scope{}, limiter.PerMinute("rpm", 20))
		w.mustAdmit(tenant, "alice", rpm(10))
		w.mustAdmit(py, "alice", rpm(20))
		w.mustRefuse(tenant, "alice", rpm(1))
		w.mustRefuse(w.ours, "alice", rpm(1))
	})
}
