package infra_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func entityOperations() []operation {
	return []operation{
		{"CreateEntity", managing, func(w *world) {
			w.ok(w.repo.CreateEntity(w.Context(), limiter.Entity{ID: "new", Parent: "parent"}, w.event()))
		}},
		{"Entity", reading, func(w *world) {
			_, err := w.repo.Entity(w.Context(), "child")
			w.ok(err)
		}},
		{"Entities: of a parent", listing, func(w *world) { drain(w, w.repo.Entities(w.Context(), "parent")) }},
		{"Entities: all", listing, func(w *world) {
			w.inhabit("entities")
			drain(w, w.repo.Entities(w.Context(), ""))
		}},
		{"DeleteEntity", managing, func(w *world) {
			w.create(limiter.Entity{ID: "leaving"})
			w.set(limiter.Scope{Entity: "leaving"}, limiter.PerMinute("rpm", 1000))
			w.consume(w.others, "leaving", noon)
			w.ok(w.repo.DeleteEntity(w.Context(), "leaving", w.event()))
		}},
	}
}

// levels are the four scopes of limits.
var levels = map[string]limiter.Scope{
	"system": {}, "resource": {Resource: "dalle"}, "entity default": {Entity: "limited"}, "entity": {Entity: "limited", Resource: gpt},
}

func configOperations() []operation {
	var all []operation
	for _, level := range []string{"system", "resource", "entity default", "entity"} {
		s := levels[level]
		cfg := limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 60)}}
		all = append(all, operation{"SetConfig: " + level, managing + applying, func(w *world) {
			w.consume(w.others, "limited", noon)
			w.ok(w.repo.SetConfig(w.Context(), cfg, w.event()))
			w.ok(w.repo.SetConfig(w.Context(), cfg, w.event()))
		}}, operation{"Config: " + level, reading + applying, func(w *world) {
			_, err := w.repo.Config(w.Context(), s)
			w.ok(err)
		}}, operation{"DeleteConfig: " + level, managing + applying, func(w *world) {
			w.ok(w.repo.DeleteConfig(w.Context(), s, w.event()))
			if level == "system" {
				w.set(limiter.Scope{}, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
			}
		}})
	}
	return append(all, []operation{
		{"SetConfig: mode", managing + applying, func(w *world) {
			w.ok(w.repo.SetConfig(w.Context(), limiter.Config{OnUnavailable: limiter.Allow}, w.event()))
		}},
		{"ResourcesWithDefaults", reading + applying, func(w *world) {
			_, err := w.repo.ResourcesWithDefaults(w.Context())
			w.ok(err)
		}},
		{"ResourcesWithLimits", reading + applying, func(w *world) {
			_, err := w.repo.ResourcesWithLimits(w.Context())
			w.ok(err)
		}},
		{"EntitiesWithLimits", listing, func(w *world) { drain(w, w.repo.EntitiesWithLimits(w.Context(), gpt)) }},
	}...)
}

func namespaceOperations() []operation {
	return []operation{
		{"Namespace", reading + applying, func(w *world) {
			_, err := w.repo.Namespace(w.Context(), "default")
			w.ok(err)
		}},
		{"Namespaces", reading + applying, func(w *world) { drain(w, w.repo.Namespaces(w.Context())) }},
		{"RegisterNamespace", administering, func(w *world) {
			_, err := w.repo.RegisterNamespace(w.Context(), noon, "registered")
			w.ok(err)
			_, err = w.repo.RegisterNamespace(w.Context(), noon, "registered")
			w.ok(err)
		}},
		{"DeleteNamespace", administering, func(w *world) {
			w.inhabit("deleted")
			w.ok(w.repo.DeleteNamespace(w.Context(), noon, "deleted"))
		}},
		{"RecoverNamespace", administering, func(w *world) {
			w.inhabit("recovered")
			w.ok(w.others.DeleteNamespace(w.Context(), noon, "recovered"))
			_, err := w.repo.RecoverNamespace(w.Context(), noon, w.space)
			w.ok(err)
		}},
		{"PurgeNamespace", administering, func(w *world) {
			w.inhabit("purged")
			w.ok(w.others.DeleteNamespace(w.Context(), noon, "purged"))
			w.ok(w.repo.PurgeNamespace(w.Context(), w.space))
		}},
	}
}

// inhabit makes the recorded repository one of a new namespace, with an entity,
// limits and a bucket in it and nothing else.
func (w *world) inhabit(name string) {
	w.Helper()
	ns, err := w.others.RegisterNamespace(w.Context(), noon, name)
	w.ok(err)
	view := w.connect(w.config(w.next), name)
	w.ok(view.SetConfig(w.Context(), limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}}, w.event()))
	w.ok(view.CreateEntity(w.Context(), limiter.Entity{ID: "inhabitant"}, w.event()))
	w.consume(view, "inhabitant", noon.Add(time.Second))
	w.space = ns.ID
	w.repo = w.connect(w.config(&w.recorder), name)
	w.take(w.T)
}
