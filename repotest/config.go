package repotest

import (
	"github.com/zeroae/zae-limiter-go"
)

func configChecks() []check {
	return []check{
		{"an empty scope has no limits", configEmpty},
		{"a scope has the limits set last, sorted by name", configReplaced},
		{"scopes do not mix", configScopes},
		{"the most specific level gives all limits", configPrecedence},
		{"nil limits and an empty mode are left as stored", configPartial},
		{"the mode is cached", configMode},
		{"after a delete the next level applies", configDeleted},
		{"deleting the system deletes limits and mode", configSystemDeleted},
		{"deleting nothing is not found", configNotFound},
		{"limits are not shared with the caller", configNotShared},
	}
}

func (f *fixture) config(s limiter.Scope) limiter.Config {
	f.Helper()
	cfg, err := f.repo.Config(f.ctx, s)
	f.ok("Config", err)
	return cfg
}

func (f *fixture) setMode(mode limiter.OnUnavailable) {
	f.Helper()
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, limiter.Config{OnUnavailable: mode}, f.event("limits_set", "$SYSTEM")))
}

func configEmpty(f *fixture) {
	for _, s := range limiter.Precedence("key-1", model) {
		f.equal("config", f.config(s), limiter.Config{Scope: s})
	}
	f.equal("mode", f.repo.OnUnavailable(), limiter.OnUnavailable(""))
}

func configReplaced(f *fixture) {
	// A float64 would lose the last digit of this capacity.
	a, b := limiter.Custom("a", 10, 3, 7e9), limiter.PerDay("b", 1<<53+1)

	for _, s := range limiter.Precedence("key-1", model) {
		f.setLimits(s, perMinute60)
		f.setLimits(s, b, a)
		f.equal("config", f.config(s), limiter.Config{Scope: s, Limits: []limiter.Limit{a, b}})
	}
}

func configScopes(f *fixture) {
	scopes := []limiter.Scope{
		{},
		{Resource: "a"},
		{Resource: "b"},
		{Entity: "a"},
		{Entity: "b"},
		{Entity: "a", Resource: "a"},
		{Entity: "a", Resource: "b"},
		{Entity: "b", Resource: "a"},
	}

	for i, s := range scopes {
		f.setLimits(s, limiter.PerMinute("rpm", int64(i+1)))
	}

	for i, s := range scopes {
		f.equal("config", f.config(s), limiter.Config{
			Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", int64(i+1))},
		})
	}

	f.deleteConfig(limiter.Scope{Entity: "a"})
	f.equal("its neighbour", len(f.config(limiter.Scope{Entity: "a", Resource: "a"}).Limits), 1)
	f.equal("its namesake", len(f.config(limiter.Scope{Resource: "a"}).Limits), 1)
}

// configPrecedence gives each level a limit with a name of its own, which
// would reveal a mixture of levels.
func configPrecedence(f *fixture) {
	order := limiter.Precedence("key-1", model)

	for i := len(order) - 1; i >= 0; i-- {
		limit := limiter.PerMinute("level-"+order[i].Level(), int64(i+1))
		f.setLimits(order[i], limit)

		out := f.take(0, ask("key-1", limiter.Tokens(limit.Name, 1)), int64(i)*1000)
		f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{limit})
		f.equal("source", out.Payers[0].Account.Source, order[i])
	}

	other := f.take(0, ask("key-2", limiter.Tokens("level-resource", 1)))
	f.equal("source for another entity", other.Payers[0].Account.Source, order[2])
}

func configPartial(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.setMode(limiter.Allow)
	f.equal("config", f.config(limiter.Scope{}), limiter.Config{
		Limits: []limiter.Limit{perMinute60}, OnUnavailable: limiter.Allow,
	})

	f.setLimits(limiter.Scope{}, limiter.PerMinute("rpm", 30))
	f.equal("config", f.config(limiter.Scope{}), limiter.Config{
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 30)}, OnUnavailable: limiter.Allow,
	})

	both := limiter.Config{Limits: []limiter.Limit{perMinute60}, OnUnavailable: limiter.Block}
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, both, f.event("limits_set", "$SYSTEM")))
	f.equal("config", f.config(limiter.Scope{}), both)
}

func configMode(f *fixture) {
	f.setMode(limiter.Allow)
	f.equal("mode", f.repo.OnUnavailable(), limiter.Allow)
	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume with a mode but no limits", err, limiter.ErrNoLimits)

	f.setMode(limiter.Block)
	f.equal("mode", f.repo.OnUnavailable(), limiter.Block)
	// A change of another level must not lose the cached mode.
	f.setDefaults(perMinute60)
	f.equal("mode", f.repo.OnUnavailable(), limiter.Block)
}

func configDeleted(f *fixture) {
	order := limiter.Precedence("key-1", model)

	for i, s := range order {
		f.setLimits(s, limiter.PerMinute("rpm", int64(10*(i+1))))
	}

	for i, s := range order[:3] {
		f.deleteConfig(s)
		f.equal("config", f.config(s), limiter.Config{Scope: s})

		out := f.peek(0, ask("key-1", limiter.Amounts{}))
		f.equal("source", out.Payers[0].Account.Source, order[i+1])
		f.equal("balance", out.Payers[0].Tokens, []int64{int64(10*(i+2)) * 1000})
	}
}

func configSystemDeleted(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.setMode(limiter.Allow)
	f.deleteConfig(limiter.Scope{})
	f.equal("config", f.config(limiter.Scope{}), limiter.Config{})
	f.equal("mode", f.repo.OnUnavailable(), limiter.OnUnavailable(""))

	// A system level may have a mode and no limits, or limits and no mode.
	f.setMode(limiter.Allow)
	f.deleteConfig(limiter.Scope{})
	f.equal("mode", f.repo.OnUnavailable(), limiter.OnUnavailable(""))

	f.setLimits(limiter.Scope{}, perMinute60)
	f.equal("config", f.config(limiter.Scope{}), limiter.Config{Limits: []limiter.Limit{perMinute60}})
}

func configNotFound(f *fixture) {
	for _, s := range limiter.Precedence("key-1", model) {
		missing := func() {
			f.fails("DeleteConfig", f.repo.DeleteConfig(f.ctx, s, f.event("limits_deleted", auditEntity(s))),
				limiter.ErrNotFound)
		}

		before := len(f.audit(auditEntity(s), ""))
		missing()
		f.equal("events", len(f.audit(auditEntity(s), "")), before)

		f.setLimits(s, perMinute60)
		f.deleteConfig(s)
		missing()
		f.equal("events", len(f.audit(auditEntity(s), "")), before+2)
	}
}

func configNotShared(f *fixture) {
	mine := []limiter.Limit{limiter.PerMinute("b", 1), limiter.PerMinute("a", 2)}
	f.setDefaults(mine...)

	f.equal("the caller's list", mine, []limiter.Limit{limiter.PerMinute("b", 1), limiter.PerMinute("a", 2)})

	mine[0] = perMinute60
	s := limiter.Scope{Resource: model}
	clear(f.config(s).Limits)
	f.equal("limits", f.config(s).Limits, []limiter.Limit{limiter.PerMinute("a", 2), limiter.PerMinute("b", 1)})
}
