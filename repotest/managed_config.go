package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// replace calls ReplaceConfig with an event.
func (f *fixture) replace(cfg limiter.Config) {
	f.Helper()
	f.ok("ReplaceConfig", f.managedStore().ReplaceConfig(f.ctx, cfg, f.event("limits_set", auditEntity(cfg.Scope))))
}

func managedOwner(f *fixture) {
	store := f.managedStore()

	owned := func(hash, owner string) {
		f.Helper()
		_, gotHash, gotOwner, err := store.Managed(f.ctx)
		f.ok("Managed", err)
		f.equal("hash", gotHash, hash)
		f.equal("owner", gotOwner, owner)
	}

	owned("", "")

	f.ok("SetManaged", store.SetManaged(f.ctx, epoch, "", "first", "stack/1 Limits", nil))
	owned("first", "stack/1 Limits")

	f.fails("SetManaged after another", store.SetManaged(f.ctx, epoch, "", "second", "thief", nil), limiter.ErrConflict)
	owned("first", "stack/1 Limits")

	f.ok("SetManaged", store.SetManaged(f.ctx, epoch, "first", "second", "", nil))
	owned("second", "")
}

func managedReplaced(f *fixture) {
	a, b := limiter.Custom("a", 10, 3, 7e9), limiter.PerDay("b", 2)

	events := map[string]int{}

	replaced := func(cfg limiter.Config) {
		f.Helper()
		f.replace(cfg)
		f.equal("config", f.config(cfg.Scope), cfg)

		about := auditEntity(cfg.Scope)
		events[about]++
		f.equal("events", len(f.audit(about, "")), events[about])
		// Only the system level has a mode.
		if cfg.Scope == (limiter.Scope{}) {
			f.equal("mode", f.repo.OnUnavailable(), cfg.OnUnavailable)
		}
	}

	for _, s := range limiter.Precedence("key-1", model) {
		replaced(limiter.Config{Scope: s, Limits: []limiter.Limit{b}})
		replaced(limiter.Config{Scope: s, Limits: []limiter.Limit{a}})
	}

	// SetConfig would keep the mode or the limits that are not given.
	replaced(limiter.Config{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{a}})
	replaced(limiter.Config{OnUnavailable: limiter.Block})
	replaced(limiter.Config{Limits: []limiter.Limit{a, b}})

	f.defaults(model)
	f.limited("", model)

	for _, s := range limiter.Precedence("key-1", model) {
		f.deleteConfig(s)
	}

	f.defaults()
	f.limited()
}

func managedReplacedLive(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}

	f.setLimits(own, perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	ev := f.event("limits_set", "key-1")
	ev.At = at(30 * time.Second)
	more := limiter.Config{Scope: own, Limits: []limiter.Limit{limiter.PerMinute("rpm", 600)}}

	f.ok("ReplaceConfig", f.managedStore().ReplaceConfig(f.ctx, more, ev))
	f.equal("limits of the bucket",
		first(f, "Buckets", f.buckets(30*time.Second, limiter.Scope{Entity: "key-1"})).Account.Limits, more.Limits)

	// Half a minute at the old rate gives 30 tokens, and half a minute at the
	// new one 300.
	f.take(time.Minute, ask("key-1", rpm(1)), 329_000)

	f.deleteConfig(own)
	f.replace(limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 8)}})
	f.take(time.Minute, ask("key-1", rpm(5)), 3_000)
}
