package repotest

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func switchChecks() []check {
	return []check{
		{"every level refuses the charges it concerns, and no others", switchLevels},
		{"the error names the level, the reason and the time", switchError},
		{"the most specific level is named", switchPrecedence},
		{"a parent that is off refuses its children", switchParent},
		{"a child that is off leaves its parent alone", switchChild},
		{"an entity that does not cascade passes its parent's switch", switchNoCascade},
		{"the child's levels come before the parent's", switchParentOrder},
		{"a switch comes before every other answer", switchFirst},
		{"a switch refuses under limits of the call", switchOverride},
		{"a switch refuses charges of nothing, and strict ones", switchNothing},
		{"work that is done is charged while a level is off", switchLate},
		{"a peek is refused, too", switchPeek},
		{"a refused charge changes nothing", switchWritesNothing},
		{"enabling lets charges pass again", switchEnable},
		{"enabling a level that is on finds nothing", switchEnableNothing},
		{"a level that is on does not override another that is off", switchNoOverride},
		{"disabling again replaces the reason and keeps the time", switchAgain},
		{"credits are stored while a level is off", switchCredit},
		{"a reset and a top-up work while a level is off", switchFill},
		{"a switch outlives its entity", switchOutlives},
		{"a switch applies to an entity made later", switchEarly},
		{"a switch applies to existing and to new buckets", switchBuckets},
		{"a switch changes no limits", switchLimits},
		{"switches are listed by entity, then resource", switchListed},
		{"the last seen switch needs no store", switchLast},
		{"an outage under Allow keeps a level off", switchOutage},
		{"switches of namespaces are apart", switchNamespaces},
		{"a purge removes switches", switchPurge},
		{"switches are audited", switchAudit},
		{"a limiter's Disable and Enable use the port", switchLimiter},
		{"open leases settle", switchLease},
	}
}

// reason is the reason of most switches in the tests.
const reason = "the key was leaked"

func (f *fixture) disable(s limiter.Scope, why string) {
	f.Helper()

	ev := f.event("disabled", auditEntity(s))
	f.ok("SetSwitch", f.repo.SetSwitch(f.ctx, limiter.Switch{Scope: s, Reason: why, Since: ev.At}, ev))
}

func (f *fixture) enable(s limiter.Scope) {
	f.Helper()
	f.ok("DeleteSwitch", f.repo.DeleteSwitch(f.ctx, s, f.event("enabled", auditEntity(s))))
}

// disabled checks that a charge is refused by the switch of a scope.
func (f *fixture) disabled(c limiter.Charge, want limiter.Scope) {
	f.Helper()
	out, err := f.repo.Consume(f.ctx, epoch, c)
	f.isDisabled("Consume", err, c, want)

	f.equal("outcome", out, limiter.Outcome{})

	_, err = f.repo.Peek(f.ctx, epoch, c)
	f.isDisabled("Peek", err, c, want)
}

func (f *fixture) isDisabled(what string, err error, c limiter.Charge, want limiter.Scope) {
	f.Helper()

	off, ok := errors.AsType[*limiter.DisabledError](err)
	if !ok {
		f.Fatalf("%s of %s and %s: %v, want a *limiter.DisabledError", what, c.Entity, c.Resource, err)
	}

	f.equal(what+": the switch", *off, limiter.DisabledError{
		Entity: c.Entity, Resource: c.Resource, Scope: want, Reason: off.Reason, Since: epoch,
	})
}

// switches returns the switches of the store.
func (f *fixture) switches() []limiter.Switch {
	f.Helper()
	return collect(f, "Switches", f.repo.Switches(f.ctx))
}

// of returns a charge of one request.
func of(entity, resource string) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: resource, Amounts: rpm(1)}
}

func switchLevels(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	charges := []limiter.Charge{of("key-1", model), of("key-1", "claude"), of("key-2", model), of("key-2", "claude")}

	for _, c := range []struct {
		scope   limiter.Scope
		refused [4]bool // by charge
	}{
		{limiter.Scope{Entity: "key-1", Resource: model}, [4]bool{true, false, false, false}},
		{limiter.Scope{Entity: "key-1"}, [4]bool{true, true, false, false}},
		{limiter.Scope{Resource: model}, [4]bool{true, false, true, false}},
		{limiter.Scope{}, [4]bool{true, true, true, true}},
	} {
		f.disable(c.scope, reason)
		for i, charge := range charges {
			if c.refused[i] {
				f.disabled(charge, c.scope)
			} else {
				f.take(0, charge)
			}
		}

		f.enable(c.scope)
	}

	for _, charge := range charges {
		f.take(0, charge)
	}
}

func switchError(f *fixture) {
	f.setDefaults(perMinute60)
	own := limiter.Scope{Entity: "key-1", Resource: model}

	ev := f.event("disabled", "key-1")
	// The time of a switch is kept in whole seconds.
	f.ok("SetSwitch",
		f.repo.SetSwitch(f.ctx,
			limiter.Switch{Scope: own, Reason: reason, Since: epoch.Add(999 * time.Millisecond)}, ev))

	_, err := f.repo.Consume(f.ctx, at(time.Hour), ask("key-1", rpm(1)))
	off, _ := errors.AsType[*limiter.DisabledError](err)
	f.equal("error", off, &limiter.DisabledError{
		Entity: "key-1", Resource: model, Scope: own, Reason: reason, Since: epoch,
	})

	f.disable(limiter.Scope{Entity: "key-2"}, "")
	_, err = f.repo.Peek(f.ctx, epoch, ask("key-2", rpm(1)))
	off, _ = errors.AsType[*limiter.DisabledError](err)
	f.equal("error without a reason", off, &limiter.DisabledError{
		Entity: "key-2", Resource: model, Scope: limiter.Scope{Entity: "key-2"}, Since: epoch,
	})
}

func switchPrecedence(f *fixture) {
	f.setDefaults(perMinute60)
	levels := limiter.Precedence("key-1", model)
	for i := range levels {
		scope := levels[len(levels)-1-i]
		f.disable(scope, scope.Level())
		f.disabled(ask("key-1", rpm(1)), scope)
	}

	for i, scope := range levels {
		f.disabled(ask("key-1", rpm(1)), scope)
		f.enable(levels[i])
	}

	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func switchParent(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	f.take(0, ask("key-1", rpm(1)), 59_000)

	for _, scope := range []limiter.Scope{{Entity: "project-1"}, {Entity: "project-1", Resource: model}} {
		f.disable(scope, reason)
		f.disabled(ask("key-1", rpm(1)), scope)
		f.disabled(ask("project-1", rpm(1)), scope)
		f.enable(scope)
		f.take(0, ask("key-1", rpm(1)))
	}
}

func switchChild(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.createCascading("key-2", "project-1")

	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	f.take(0, ask("project-1", rpm(1)), 59_000)
	f.paid(f.take(0, ask("key-2", rpm(1)), 59_000), "project-1", 58_000)
}

func switchNoCascade(f *fixture) {
	f.setDefaults(perMinute60)

	f.create(limiter.Entity{ID: "key-1", Name: "key-1", Parent: "project-1"})
	f.disable(limiter.Scope{Entity: "project-1"}, reason)
	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func switchParentOrder(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	parents := []limiter.Scope{{Entity: "project-1"}, {Entity: "project-1", Resource: model}}
	for _, scope := range parents {
		f.disable(scope, reason)
		f.disabled(ask("key-1", rpm(1)), scope)
	}

	for _, scope := range []limiter.Scope{
		{}, {Resource: model}, {Entity: "key-1"}, {Entity: "key-1", Resource: model},
	} {
		f.disable(scope, reason)
		f.disabled(ask("key-1", rpm(1)), scope)
	}
}

// switchFirst makes charges that would otherwise be invalid.
func switchFirst(f *fixture) {
	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	// There are no limits.
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	f.setDefaults(perMinute60)
	f.disabled(ask("key-1", limiter.Tokens("nonsense", 1)), limiter.Scope{Entity: "key-1"})
	// A limit does not cover the charge.
	f.disabled(ask("key-1", rpm(61)), limiter.Scope{Entity: "key-1"})

	f.createCascading("key-2", "key-1")
	f.deleteConfig(limiter.Scope{Resource: model})
	f.disabled(ask("key-2", rpm(1)), limiter.Scope{Entity: "key-1"})
}

func switchOverride(f *fixture) {
	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	f.disabled(overrideCharge("key-1", rpm(1), perMinute60), limiter.Scope{Entity: "key-1"})
	f.unlisted(0, "key-1")
	f.take(0, overrideCharge("key-2", rpm(1), perMinute60), 59_000)

	f.disable(limiter.Scope{Resource: model}, reason)
	f.disabled(overrideCharge("key-2", rpm(1), perMinute60), limiter.Scope{Resource: model})

	defaults := ask("key-3", rpm(1))
	defaults.Defaults = []limiter.Limit{perMinute60}
	f.disabled(defaults, limiter.Scope{Resource: model})
}

func switchNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.disable(limiter.Scope{Entity: "key-1"}, reason)

	f.disabled(ask("key-1", limiter.Amounts{}), limiter.Scope{Entity: "key-1"})
	f.disabled(ask("key-1", rpm(0)), limiter.Scope{Entity: "key-1"})

	strict := ask("key-1", rpm(1))
	strict.Strict = true
	f.disabled(strict, limiter.Scope{Entity: "key-1"})
}

func switchPeek(f *fixture) {
	f.setDefaults(perMinute60)

	f.disable(limiter.Scope{}, reason)
	for _, call := range []func() error{
		func() error { _, err := f.limiter(0).Explain(f.ctx, request(rpm(1))); return err },
		func() error { _, err := f.limiter(0).TimeUntil(f.ctx, request(rpm(1))); return err },
	} {
		f.isDisabled("a look", call(), ask("key-1", rpm(1)), limiter.Scope{})
	}
}

func switchWritesNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)
	f.setDefaults(limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 6000))

	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	_, err := f.repo.Consume(f.ctx, at(time.Second), ask("key-1", rpm(1)))
	f.isDisabled("Consume", err, ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	f.enable(limiter.Scope{Entity: "key-1"})
	// The charge repairs the bucket at this time. The refused ones have not.
	f.take(2*time.Second, ask("key-1", rpm(0)), 52_000, 6_000_000)
}

func switchEnable(f *fixture) {
	f.setDefaults(perMinute60)

	for range 3 {
		f.disable(limiter.Scope{Entity: "key-1"}, reason)
		f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})
		f.enable(limiter.Scope{Entity: "key-1"})
		f.take(0, ask("key-1", rpm(1)))
	}

	f.holds(0, "key-1", 57_000)
	f.equal("switches", f.switches(), []limiter.Switch(nil))
}

func switchEnableNothing(f *fixture) {
	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	for _, s := range []limiter.Scope{{}, {Resource: model}, {Entity: "key-2"}, {Entity: "key-1", Resource: model}} {
		f.fails("DeleteSwitch", f.repo.DeleteSwitch(f.ctx, s, f.event("enabled", auditEntity(s))), limiter.ErrNotFound)
	}

	f.enable(limiter.Scope{Entity: "key-1"})
	s := limiter.Scope{Entity: "key-1"}
	f.fails("DeleteSwitch again", f.repo.DeleteSwitch(f.ctx, s, f.event("enabled", "key-1")), limiter.ErrNotFound)

	f.equal("actions", actions(f.audit("key-1", "")), []string{"enabled", "disabled"})
}

// actions returns the actions of events.
func actions(events []limiter.AuditEvent) (all []string) {
	for _, ev := range events {
		all = append(all, ev.Action)
	}
	return all
}

func switchNoOverride(f *fixture) {
	f.setDefaults(perMinute60)
	own := limiter.Scope{Entity: "key-1", Resource: model}

	f.disable(own, reason)
	f.disable(limiter.Scope{}, reason)
	f.enable(own)

	f.disabled(ask("key-1", rpm(1)), limiter.Scope{})

	f.enable(limiter.Scope{})
	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func switchAgain(f *fixture) {
	f.disable(limiter.Scope{Entity: "key-1"}, "first")
	ev := f.event("disabled", "key-1")
	ev.At = at(time.Hour)

	f.ok("SetSwitch",
		f.repo.SetSwitch(f.ctx,
			limiter.Switch{Scope: limiter.Scope{Entity: "key-1"}, Reason: "second", Since: ev.At}, ev))

	f.equal("switches", f.switches(), []limiter.Switch{{
		Scope: limiter.Scope{Entity: "key-1"}, Reason: "second", Since: epoch,
	}})

	f.enable(limiter.Scope{Entity: "key-1"})
	f.ok("SetSwitch",
		f.repo.SetSwitch(f.ctx, limiter.Switch{Scope: limiter.Scope{Entity: "key-1"}, Since: ev.At},
			f.event("disabled", "key-1")))

	f.equal("switches", f.switches(), []limiter.Switch{{Scope: limiter.Scope{Entity: "key-1"}, Since: at(time.Hour)}})
}

func switchOutlives(f *fixture) {
	f.setDefaults(perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	f.take(0, ask("key-1", rpm(1)))

	scopes := []limiter.Scope{{Entity: "key-1"}, {Entity: "key-1", Resource: model}}
	for _, s := range scopes {
		f.disable(s, reason)
	}

	f.deleteEntity("key-1")
	f.equal("number of switches", len(f.switches()), 2)

	f.disabled(ask("key-1", rpm(1)), scopes[1])
	f.enable(scopes[1])

	f.disabled(ask("key-1", rpm(1)), scopes[0])
	f.enable(scopes[0])
	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func switchEarly(f *fixture) {
	f.setDefaults(perMinute60)

	f.disable(limiter.Scope{Entity: "project-1"}, reason)
	f.disabled(ask("project-1", rpm(1)), limiter.Scope{Entity: "project-1"})

	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.createCascading("key-1", "project-1")
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "project-1"})
}

func switchBuckets(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	f.take(0, of("key-1", model), 59_000)

	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	f.disabled(of("key-1", model), limiter.Scope{Entity: "key-1"})
	f.disabled(of("key-1", "claude"), limiter.Scope{Entity: "key-1"})

	f.enable(limiter.Scope{Entity: "key-1"})
	f.take(0, of("key-1", "claude"), 59_000)
	f.take(0, of("key-1", model), 58_000)

	f.disable(limiter.Scope{Entity: "key-1", Resource: "claude"}, reason)
	f.disabled(of("key-1", "claude"), limiter.Scope{Entity: "key-1", Resource: "claude"})
	f.take(0, of("key-1", model), 57_000)
}

func switchLimits(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)
	before := f.buckets(0, limiter.Scope{Entity: "key-1"})

	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	f.equal("buckets", f.buckets(0, limiter.Scope{Entity: "key-1"}), before)

	cfg, err := f.repo.Config(f.ctx, limiter.Scope{Resource: model})
	f.ok("Config", err)
	f.equal("limits", cfg.Limits, []limiter.Limit{perMinute60})
	// A switch creates no record of its entity.
	_, err = f.repo.Entity(f.ctx, "key-1")
	f.fails("Entity", err, limiter.ErrNotFound)
	f.equal("entities", collect(f, "Entities", f.repo.Entities(f.ctx, "")), []limiter.Entity(nil))
}
