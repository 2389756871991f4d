package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func switchListed(f *fixture) {
	scopes := []limiter.Scope{
		{},
		{Resource: "claude"},
		{Resource: model},
		{Entity: "a"},
		{Entity: "a", Resource: model},
		{Entity: "a-b", Resource: "claude"},
		{Entity: "b"},
	}

	var want []limiter.Switch
	for i := range scopes {
		f.disable(scopes[len(scopes)-1-i], scopes[len(scopes)-1-i].Level())
		want = append(want, limiter.Switch{Scope: scopes[i], Reason: scopes[i].Level(), Since: epoch})
	}

	f.equal("switches", f.switches(), want)
}

func switchLast(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	last := func(want *limiter.Switch) {
		f.Helper()
		f.equal("LastSwitch", f.repo.LastSwitch("key-1", model), want)
	}

	last(nil)

	f.take(0, ask("key-1", rpm(1)))
	last(nil)

	f.disable(limiter.Scope{Entity: "project-1"}, "a")
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "project-1"})
	last(&limiter.Switch{Scope: limiter.Scope{Entity: "project-1"}, Reason: "a", Since: epoch})

	f.disable(limiter.Scope{Entity: "key-1"}, "b")
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})
	last(&limiter.Switch{Scope: limiter.Scope{Entity: "key-1"}, Reason: "b", Since: epoch})

	f.enable(limiter.Scope{Entity: "key-1"})
	f.enable(limiter.Scope{Entity: "project-1"})
	f.take(0, ask("key-1", rpm(1)))
	last(nil)
}

// outages returns a repository whose charges fail without reaching the store.
func outages(repo limiter.Repository) limiter.Repository {
	return NewFaulty(repo, func(method string) Fault {
		if method == "Consume" {
			return Before
		}
		return None
	})
}

func switchOutage(f *fixture) {
	f.setDefaults(perMinute60)
	f.disable(limiter.Scope{Entity: "key-1"}, reason)
	// The store has seen the switch, so an outage applies it.
	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	f.take(0, ask("key-2", rpm(1)))

	down, err := limiter.New(outages(f.repo), &limiter.Options{OnUnavailable: limiter.Allow, Now: func() time.Time {
		return epoch
	}})
	f.ok("New", err)

	_, err = down.Acquire(f.ctx, request(rpm(1)))
	f.isDisabled("Acquire in an outage", err, ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	lease, err := down.Acquire(f.ctx, limiter.Request{Entity: "key-2", Resource: model, Consume: rpm(1)})
	f.ok("Acquire of another entity in an outage", err)
	f.fails("Outage", lease.Outage(), ErrInjected)
}

func switchNamespaces(f *fixture) {
	_, other := f.namespace("other")
	f.setDefaults(perMinute60)

	other.setDefaults(perMinute60)
	f.disable(limiter.Scope{}, reason)
	f.disable(limiter.Scope{Entity: "key-1"}, reason)

	f.disabled(ask("key-1", rpm(1)), limiter.Scope{Entity: "key-1"})

	other.take(0, ask("key-1", rpm(1)), 59_000)

	f.equal("switches of the other", other.switches(), []limiter.Switch(nil))
	f.equal("LastSwitch of the other", other.repo.LastSwitch("key-1", model), (*limiter.Switch)(nil))
	f.fails("DeleteSwitch in the other",
		other.repo.DeleteSwitch(f.ctx, limiter.Scope{}, f.event("enabled", "$SYSTEM")), limiter.ErrNotFound)

	other.disable(limiter.Scope{Resource: model}, "its own")
	f.enable(limiter.Scope{})
	f.enable(limiter.Scope{Entity: "key-1"})

	f.take(0, ask("key-1", rpm(1)), 59_000)
	other.disabled(ask("key-1", rpm(1)), limiter.Scope{Resource: model})
}

func switchPurge(f *fixture) {
	id, tenant := f.namespace("tenant")

	tenant.disable(limiter.Scope{}, reason)
	tenant.disable(limiter.Scope{Entity: "key-1"}, reason)

	f.deleteNamespace("tenant")
	_, err := f.repo.RecoverNamespace(f.ctx, epoch, id)
	f.ok("RecoverNamespace", err)

	f.equal("number of switches after a recovery", len(tenant.switches()), 2)

	f.deleteNamespace("tenant")
	f.ok("PurgeNamespace", f.repo.PurgeNamespace(f.ctx, id))

	_, tenant = f.namespace("tenant")
	f.equal("switches after a purge", tenant.switches(), []limiter.Switch(nil))

	tenant.setDefaults(perMinute60)
	tenant.take(0, ask("key-1", rpm(1)), 59_000)
}

func switchAudit(f *fixture) {
	lim := f.limiter(0)

	for _, c := range []struct {
		scope            limiter.Scope
		entity, resource string
	}{
		{limiter.Scope{}, "$SYSTEM", ""},
		{limiter.Scope{Resource: model}, "$RESOURCE:" + model, model},
		// An event about all resources of an entity names them so.
		{limiter.Scope{Entity: "key-1"}, "key-1", "_default_"},
		{limiter.Scope{Entity: "key-2", Resource: model}, "key-2", model},
	} {
		f.ok("Disable", lim.Disable(f.ctx, c.scope, reason))
		f.ok("Enable", lim.Enable(f.ctx, c.scope))
		events := f.audit(c.entity, "")

		if len(events) != 2 {
			f.Fatalf("%d events of %s, want 2", len(events), c.entity)
		}

		for i, want := range []limiter.AuditEvent{
			{Action: "enabled", Entity: c.entity, At: epoch},
			{Action: "disabled", Entity: c.entity, At: epoch, Details: map[string]any{"reason": reason}},
		} {
			got := events[i]
			want.ID, want.Principal, want.Resource = got.ID, got.Principal, c.resource
			f.equal("event", got, want)
		}
	}
}

func switchLimiter(f *fixture) {
	f.setDefaults(perMinute60)

	lim := f.limiter(ms(999))
	own := limiter.Scope{Entity: "key-1", Resource: model}

	f.ok("Disable", lim.Disable(f.ctx, own, reason))
	f.equal("Switches", collect(f, "Switches", lim.Switches(f.ctx)), []limiter.Switch{{
		Scope: own, Reason: reason, Since: epoch,
	}})

	_, err := lim.Acquire(f.ctx, request(rpm(1)))
	f.isDisabled("Acquire", err, ask("key-1", rpm(1)), own)
	_, err = lim.Wait(f.ctx, request(rpm(1)))
	f.isDisabled("Wait", err, ask("key-1", rpm(1)), own)

	f.ok("Enable", lim.Enable(f.ctx, own))
	f.fails("Enable again", lim.Enable(f.ctx, own), limiter.ErrNotFound)

	_, err = lim.Acquire(f.ctx, request(rpm(1)))
	f.ok("Acquire", err)
}

func switchLease(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	lim := f.limiter(0)
	committed, err := lim.Acquire(f.ctx, request(rpm(10)))
	f.ok("Acquire", err)
	rolledBack, err := lim.Acquire(f.ctx, request(rpm(20)))
	f.ok("Acquire", err)

	f.disable(limiter.Scope{Entity: "project-1"}, reason)
	f.isDisabled("Lease.Consume", committed.Consume(f.ctx, rpm(1)), ask("key-1", rpm(1)),
		limiter.Scope{Entity: "project-1"})

	f.ok("Adjust", committed.Adjust(rpm(5)))
	f.ok("Flush", committed.Flush(f.ctx))
	f.ok("Adjust", committed.Adjust(rpm(-1)))
	f.ok("Commit", committed.Commit(f.ctx))
	f.ok("Rollback", rolledBack.Rollback(f.ctx))

	f.listed(0, "key-1", 46_000)
	f.listed(0, "project-1", 46_000)
}
