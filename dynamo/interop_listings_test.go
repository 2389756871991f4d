package dynamo_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
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

// limitsBy sorts limits, which Python lists in any order.
func limitsBy(limits []limiter.Limit) []limiter.Limit {
	slices.SortFunc(limits, func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
	return limits
}

// TestInteropEntitiesAreFoundByBoth: with everything that is known of them.
func TestInteropEntitiesAreFoundByBoth(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for maker, p := range map[string]program{"go": w.ours, "python": py} {
			p.create(limiter.Entity{ID: maker, Name: "By " + maker, Parent: "org", Cascade: true, Metadata: map[string]string{"tier": "gold"}})
			want := peerEntity{maker, "By " + maker, "org", true, map[string]string{"tier": "gold"}, noon}
			var got peerEntity
			py.call("get_entity", map[string]any{"entity_id": maker}, &got)
			w.equal("entity in Python", got, want)
			e, err := w.ours.lim.Entity(w.Context(), maker)
			w.ok(err)
			w.equal("entity in Go", peerEntity(e), want)
		}
		var children []peerEntity
		py.call("get_children", map[string]any{"parent_id": "org"}, &children)
		var ours []peerEntity
		for _, e := range gathered(w.T, w.ours.lim.Children(w.Context(), "org")) {
			ours = append(ours, peerEntity(e))
		}
		w.equal("children", children, ours)
		w.equal("number of children", len(ours), 2)
	})
}

// TestInteropLimitsAreFoundByBoth: those of every level, and who has any.
func TestInteropLimitsAreFoundByBoth(t *testing.T) {
	limits := []limiter.Limit{limiter.PerMinute("rpm", 10), limiter.Custom("tokens_out", 15_000, 10_000, time.Hour)}
	eachTable(t, func(w *world, py pyProgram) {
		for entity, p := range map[string]program{"go": w.ours, "python": py} {
			resource := "of-" + entity
			p.set(limiter.Scope{Entity: entity, Resource: "gpt-4"}, limits...)
			p.set(limiter.Scope{Entity: entity}, limits[0])
			p.set(limiter.Scope{Resource: resource}, limits...)
			p.set(limiter.Scope{}, limits...)
			w.foundBy(py, entity, resource, limits)
			p.unset(limiter.Scope{})
		}
		for _, resource := range []string{"gpt-4", "_default_"} {
			var page struct {
				Entities []string `json:"entities"`
			}
			py.call("list_entities_with_custom_limits", map[string]any{"resource": resource}, &page)
			w.equal("entities with limits in Python", page.Entities, []string{"go", "python"})
			ours := gathered(w.T, w.ours.lim.EntitiesWithLimits(w.Context(), strings.TrimPrefix(resource, "_default_")))
			w.equal("entities with limits in Go", ours, []string{"go", "python"})
		}
		var defaults, own []string
		py.call("list_resources_with_defaults", nil, &defaults)
		py.call("list_resources_with_entity_configs", nil, &own)
		w.equal("resources with defaults in Python", defaults, []string{"of-go", "of-python"})
		w.equal("resources with limits in Python", own, []string{"_default_", "gpt-4"})
		ours, err := w.ours.lim.ResourcesWithDefaults(w.Context())
		w.ok(err)
		w.equal("resources with defaults in Go", ours, defaults)
		ours, err = w.ours.lim.ResourcesWithLimits(w.Context())
		w.ok(err)
		w.equal("resources with limits in Go", ours, []string{"", "gpt-4"})
	})
}

func (w *world) foundBy(py pyProgram, entity, resource string, limits []limiter.Limit) {
	w.Helper()
	var got []limiter.Limit
	py.call("get_limits", map[string]any{"entity_id": entity, "resource": "gpt-4"}, &got)
	w.equal("limits of the entity in Python", limitsBy(got), limits)
	got = nil
	py.call("get_limits", map[string]any{"entity_id": entity}, &got)
	w.equal("limits of the entity for all resources in Python", got, limits[:1])
	got = nil
	py.call("get_resource_defaults", map[string]any{"resource": resource}, &got)
	w.equal("limits of the resource in Python", limitsBy(got), limits)
	var system struct {
		Limits []limiter.Limit `json:"limits"`
	}
	py.call("get_system_defaults", nil, &system)
	w.equal("limits of the system in Python", limitsBy(system.Limits), limits)
	for s, want := range map[limiter.Scope][]limiter.Limit{
		{Entity: entity, Resource: "gpt-4"}: limits, {Entity: entity}: limits[:1], {Resource: resource}: limits, {}: limits,
	} {
		cfg, err := w.repo.Config(w.Context(), s)
		w.ok(err)
		w.equal("limits in Go at level "+s.Level(), cfg.Limits, want)
	}
}

// TestInteropCapacityIsTheSame: both count the buckets of a resource alike.
func TestInteropCapacityIsTheSame(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		w.admits(w.ours, "alice", rpm(30))
		w.admits(py, "bob", rpm(50))
		w.wait(6 * time.Second)
		var want struct {
			Capacity  int64 `json:"total_capacity"`
			Available int64 `json:"total_available"`
			Entities  []any `json:"entities"`
		}
		py.call("get_resource_capacity", map[string]any{"resource": "gpt-4", "limit_name": "rpm"}, &want)
		got, err := w.ours.lim.Capacity(w.Context(), limiter.CapacityQuery{Resource: "gpt-4", Limit: "rpm"})
		w.ok(err)
		w.equal("capacity", []int64{got.Total, got.Available}, []int64{want.Capacity, want.Available})
		w.equal("what is left", got.Available, int64(140))
	})
}

// TestInteropDeletedEntityIsGone for both. Go counts down what entities have
// limits, whoever stored these; Python does not, so of its deletions only the
// data are looked at.
func TestInteropDeletedEntityIsGone(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, p := range [][2]program{{w.ours, py}, {py, w.ours}} {
			deleter, maker := p[0], p[1]
			maker.create(limiter.Entity{ID: "alice", Parent: "org", Cascade: true})
			maker.set(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.PerMinute("rpm", 10))
			maker.set(limiter.Scope{Entity: "alice"}, limiter.PerMinute("rpm", 20))
			maker.set(limiter.Scope{}, limiter.PerMinute("rpm", 30))
			w.admits(maker, "alice", rpm(1))
			w.counted("gpt-4 N 1\n_default_ N 1")
			deleter.remove("alice")
			w.equal("items", w.keys("{ns}/ENTITY#alice"), []string(nil))
			w.equal("children", len(gathered(w.T, w.ours.lim.Children(w.Context(), "org"))), 0)
			if deleter == program(w.ours) {
				w.counted("")
			}
			w.equal("entities with limits", gathered(w.T, w.ours.lim.EntitiesWithLimits(w.Context(), "gpt-4")), []string(nil))
			w.wait(dynamoFactsLife)
			w.admits(w.ours, "alice", rpm(30))
			w.refuses(py, "alice", rpm(1))
			w.ours.remove("alice")
			w.ours.remove("org")
		}
	})
}
