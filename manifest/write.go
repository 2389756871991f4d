package manifest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// exactly is a repository in which setting limits or a mode replaces all that a
// scope holds, so that one write makes it what is declared, whatever it was.
type exactly struct {
	limiter.Repository
	store limiter.ManagedStore
}

// SetConfig stores exactly this. The event tells that the limits are gone if
// there are none.
func (e exactly) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if len(cfg.Limits) == 0 {
		ev.Details["limits"] = []any{}
	}
	return e.store.ReplaceConfig(ctx, cfg, ev)
}

// write makes a change through the limiter, so that it is audited, listed, and
// rules live buckets.
func (t *target) write(ctx context.Context, c Change) error {
	s, limits := c.Scope, c.After.Limits
	switch level := Level(s); {
	case level == "system" && empty(c.After):
		return t.lim.DeleteSystemDefaults(ctx)
	case level == "system":
		return t.lim.SetSystem(ctx, c.After.OnUnavailable, limits...)
	case level == "resource" && len(limits) == 0:
		return t.lim.DeleteResourceDefaults(ctx, s.Resource)
	case level == "resource":
		return t.lim.SetResourceDefaults(ctx, s.Resource, limits...)
	case len(limits) == 0:
		return t.lim.DeleteLimits(ctx, s.Entity, s.Resource)
	}
	return t.lim.SetLimits(ctx, s.Entity, s.Resource, limits...)
}
