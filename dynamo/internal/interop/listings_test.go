package interop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// peerEntity is an entity as Python reads it.
type peerEntity struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Parent    string            `json:"parent_id"` // null is ""
	Cascade   bool              `json:"cascade"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt time.Time         `json:"created_at"`
}

// sortLimits sorts limits by name, since Python lists them in any order.
func sortLimits(limits []limiter.Limit) []limiter.Limit {
	slices.SortFunc(limits, func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
	return limits
}

// peerOf returns the part of an entity that Python knows.
func peerOf(e limiter.Entity) peerEntity {
	return peerEntity{e.ID, e.Name, e.Parent, e.Cascade, e.Metadata, e.CreatedAt}
}

// TestInteropEntitiesAreFoundByBoth checks that both libraries read all fields
// of an entity.
func TestInteropEntitiesAreFoundByBoth(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for maker, p := range map[string]program{"go": w.ours, "python": py} {
			p.create(limiter.Entity{
				ID: maker, Name: "By " + maker, Parent: "org", Cascade: true,
				Metadata: map[string]string{"tier": "gold"},
			})
			want := peerEntity{maker, "By " + maker, "org", true, map[string]string{"tier": "gold"}, noon}
			var got peerEntity
			py.call("get_entity", map[string]any{"entity_id": maker}, &got)
			w.Equal("entity in Python", got, want)
			e, err := w.ours.lim.Entity(w.Context(), maker)
			w.Must(err)
			w.Equal("entity in Go", peerOf(e), want)
		}
		var children []peerEntity
		py.call("get_children", map[string]any{"parent_id": "org"}, &children)
		var ours []peerEntity
		for _, e := range dynamotest.Collect(w.T, w.ours.lim.Children(w.Context(), "org")) {
			ours = append(ours, peerOf(e))
		}
		w.Equal("children", children, ours)
		w.Equal("number of children", len(ours), 2)
	})
}

// TestInteropLimitsAreFoundByBoth checks that both libraries read the limits of
// every level and list the same entities and resources.
func TestInteropLimitsAreFoundByBoth(t *testing.T) {
	limits := []limiter.Limit{limiter.PerMinute("rpm", 10), limiter.Custom("tokens_out", 15_000, 10_000, time.Hour)}
	eachTable(t, func(w *world, py pyProgram) {
		for entity, p := range map[string]program{"go": w.ours, "python": py} {
			resource := "of-" + entity
			p.set(limiter.Scope{Entity: entity, Resource: "gpt-4"}, limits...)
			p.set(limiter.Scope{Entity: entity}, limits[0])
			p.set(limiter.Scope{Resource: resource}, limits...)
			p.set(limiter.Scope{}, limits...)
			w.checkFound(py, entity, resource, limits)
			p.unset(limiter.Scope{})
		}
		for _, resource := range []string{"gpt-4", "_default_"} {
			var page struct {
				Entities []string `json:"entities"`
			}
			py.call("list_entities_with_custom_limits", map[string]any{"resource": resource}, &page)
			w.Equal("entities with limits in Python", page.Entities, []string{"go", "python"})
			ours := dynamotest.Collect(w.T,
				w.ours.lim.EntitiesWithLimits(w.Context(), strings.TrimPrefix(resource, "_default_")))
			w.Equal("entities with limits in Go", ours, []string{"go", "python"})
		}
		var defaults, own []string
		py.call("list_resources_with_defaults", nil, &defaults)
		py.call("list_resources_with_entity_configs", nil, &own)
		w.Equal("resources with defaults in Python", defaults, []string{"of-go", "of-python"})
		w.Equal("resources with limits in Python", own, []string{"_default_", "gpt-4"})
		ours, err := w.ours.lim.ResourcesWithDefaults(w.Context())
		w.Must(err)
		w.Equal("resources with defaults in Go", ours, defaults)
		ours, err = w.ours.lim.ResourcesWithLimits(w.Context())
		w.Must(err)
		w.Equal("resources with limits in Go", ours, []string{"", "gpt-4"})
	})
}

func (w *world) checkFound(py pyProgram, entity, resource string, limits []limiter.Limit) {
	w.Helper()
	var got []limiter.Limit
	py.call("get_limits", map[string]any{"entity_id": entity, "resource": "gpt-4"}, &got)
	w.Equal("limits of the entity in Python", sortLimits(got), limits)
	got = nil
	py.call("get_limits", map[string]any{"entity_id": entity}, &got)
	w.Equal("limits of the entity for all resources in Python", got, limits[:1])
	got = nil
	py.call("get_resource_defaults", map[string]any{"resource": resource}, &got)
	w.Equal("limits of the resource in Python", sortLimits(got), limits)
	var system struct {
		Limits []limiter.Limit `json:"limits"`
	}
	py.call("get_system_defaults", nil, &system)
	w.Equal("limits of the system in Python", sortLimits(system.Limits), limits)
	for s, want := range map[limiter.Scope][]limiter.Limit{
		{Entity: entity, Resource: "gpt-4"}: limits, {Entity: entity}: limits[:1], {Resource: resource}: limits,
		{}: limits,
	} {
		cfg, err := w.Repo.Config(w.Context(), s)
		w.Must(err)
		w.Equal("limits in Go at level "+s.Level(), cfg.Limits, want)
	}
}

// TestInteropCapacityIsTheSame checks that both libraries report the same
// capacity of a resource.
func TestInteropCapacityIsTheSame(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		w.mustAdmit(w.ours, "alice", rpm(30))
		w.mustAdmit(py, "bob", rpm(50))
		w.wait(6 * time.Second)
		var want struct {
			Capacity  int64 `json:"total_capacity"`
			Available int64 `json:"total_available"`
			Entities  []any `json:"entities"`
		}
		py.call("get_resource_capacity", map[string]any{"resource": "gpt-4", "limit_name": "rpm"}, &want)
		got, err := w.ours.lim.Capacity(w.Context(), limiter.CapacityQuery{Resource: "gpt-4", Limit: "rpm"})
		w.Must(err)
		w.Equal("capacity", []int64{got.Total, got.Available}, []int64{want.Capacity, want.Available})
		w.Equal("what is left", got.Available, int64(140))
	})
}

// TestInteropDeletedEntityIsGone checks that a deleted entity is gone for both
// libraries. Go decrements the count of entities with limits; Python does not,
// so the test skips the count after its deletions.
func TestInteropDeletedEntityIsGone(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, p := range [][2]program{{w.ours, py}, {py, w.ours}} {
			deleter, maker := p[0], p[1]
			maker.create(limiter.Entity{ID: "alice", Parent: "org", Cascade: true})
			maker.set(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.PerMinute("rpm", 10))
			maker.set(limiter.Scope{Entity: "alice"}, limiter.PerMinute("rpm", 20))
			maker.set(limiter.Scope{}, limiter.PerMinute("rpm", 30))
			w.mustAdmit(maker, "alice", rpm(1))
			w.CheckCounts("gpt-4 N 1\n_default_ N 1")
			deleter.remove("alice")
			w.Equal("items", w.SortKeys("{ns}/ENTITY#alice"), []string(nil))
			w.Equal("children", len(dynamotest.Collect(w.T, w.ours.lim.Children(w.Context(), "org"))), 0)
			if deleter == program(w.ours) {
				w.CheckCounts("")
			}
			w.Equal("entities with limits",
				dynamotest.Collect(w.T, w.ours.lim.EntitiesWithLimits(w.Context(), "gpt-4")), []string(nil))
			w.wait(defaultCacheTTL)
			w.mustAdmit(w.ours, "alice", rpm(30))
			w.mustRefuse(py, "alice", rpm(1))
			w.ours.remove("alice")
			w.ours.remove("org")
		}
	})
}
