package repotest

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

func registryChecks() []check {
	return []check{
		{"without limits the lists are empty", registriesEmpty},
		{"resources with defaults are listed until these are deleted", registryDefaults},
		{"resources are listed while some entity has limits for them", registryLimits},
		{"entities with limits are listed by resource", registryEntities},
		{"a deleted entity leaves the registries", registryDeletedEntity},
		{"a long list is complete", registryMany},
		{"setting nothing, or a mode that only the system has, stores nothing", registryNothing},
	}
}

func registryNothing(f *fixture) {
	for _, cfg := range []limiter.Config{
		{Scope: limiter.Scope{Resource: model}},
		{Scope: limiter.Scope{Resource: model}, OnUnavailable: limiter.Allow},
		{Scope: limiter.Scope{Entity: "alice"}, OnUnavailable: limiter.Allow},
	} {
		f.ok("SetConfig", f.repo.SetConfig(f.ctx, cfg, f.event("limits_set", auditEntity(cfg.Scope))))
		f.fails("DeleteConfig",
			f.repo.DeleteConfig(f.ctx, cfg.Scope, f.event("limits_deleted", auditEntity(cfg.Scope))),
			limiter.ErrNotFound)
	}
	f.defaults()
}

func (f *fixture) defaults(want ...string) {
	f.Helper()
	got, err := f.repo.ResourcesWithDefaults(f.ctx)
	f.ok("ResourcesWithDefaults", err)
	f.equal("resources with defaults", got, want)
}

func (f *fixture) limited(want ...string) {
	f.Helper()
	got, err := f.repo.ResourcesWithLimits(f.ctx)
	f.ok("ResourcesWithLimits", err)
	f.equal("resources with limits", got, want)
}

func (f *fixture) limitedEntities(resource string, want ...string) {
	f.Helper()
	got := collect(f, "EntitiesWithLimits", f.repo.EntitiesWithLimits(f.ctx, resource))
	f.equal("entities with limits for "+resource, got, want)
}

func registriesEmpty(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.setMode(limiter.Allow)

	f.take(0, ask("key-1", rpm(1)))

	f.defaults()
	f.limited()
	f.limitedEntities("")
	f.limitedEntities(model)
}

func registryDefaults(f *fixture) {
	for _, resource := range []string{"b", "a/1", "B", "a", "b"} {
		f.setLimits(limiter.Scope{Resource: resource}, perMinute60)
	}

	f.defaults("B", "a", "a/1", "b")
	f.limited()

	f.deleteConfig(limiter.Scope{Resource: "b"})
	f.defaults("B", "a", "a/1")
}

func registryLimits(f *fixture) {
	for _, s := range []limiter.Scope{
		{Entity: "k", Resource: "b"}, {Entity: "j", Resource: "b"}, {Entity: "k", Resource: "a"}, {Entity: "k"},
	} {
		f.setLimits(s, perMinute60)
		// A level that is set twice is listed once.
		f.setLimits(s, perMinute60)
	}

	f.limited("", "a", "b")
	f.defaults()

	f.deleteConfig(limiter.Scope{Entity: "k", Resource: "b"})
	// Another entity still has limits for this resource.
	f.limited("", "a", "b")

	f.deleteConfig(limiter.Scope{Entity: "j", Resource: "b"})
	f.limited("", "a")

	f.deleteConfig(limiter.Scope{Entity: "k"})
	f.limited("a")
}

func registryEntities(f *fixture) {
	for _, s := range []limiter.Scope{
		{Entity: "k", Resource: "b"},
		{Entity: "j", Resource: "b"},
		{Entity: "K", Resource: "b"},
		{Entity: "k"},
		{Resource: "b"},
	} {
		f.setLimits(s, perMinute60)
	}

	f.limitedEntities("b", "K", "j", "k")
	f.limitedEntities("", "k")
	f.limitedEntities("a")

	f.deleteConfig(limiter.Scope{Entity: "j", Resource: "b"})
	f.limitedEntities("b", "K", "k")
}

func registryDeletedEntity(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "k", Resource: "b"}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "k"}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "j", Resource: "b"}, perMinute60)

	f.deleteEntity("k")
	f.limited("b")
	f.limitedEntities("b", "j")
	f.limitedEntities("")
}

func registryMany(f *fixture) {
	var want []string
	for i := range 130 {
		id := fmt.Sprintf("key-%03d", i)
		want = append(want, id)
		f.setLimits(limiter.Scope{Entity: id, Resource: model}, perMinute60)
	}

	f.limitedEntities(model, want...)
}
