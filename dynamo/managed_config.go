package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// ConfigListed is Config, and whether lists show what is there: Python's
// provisioner writes bare items, which are in no index and no registry.
func (r *Repository) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	it, err := r.look(ctx, configKey(r.ns, s.Entity, s.Resource))
	if err != nil {
		return limiter.Config{}, false, err
	}
	cfg, err = decodeConfig(s, it)
	if err != nil {
		return limiter.Config{}, false, err
	}
	return cfg, it[attrConfigVersion] != nil && (s.Entity == "" || it[attrGSI3PK] != nil), nil
}

// ReplaceConfig stores exactly this, whatever the scope held, with its event.
// What no list showed is listed from then on.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if cfg.Scope != (limiter.Scope{}) {
		return r.SetConfig(ctx, cfg, ev) // which does so
	}
	if err := checkLimits(len(cfg.Limits)); err != nil {
		return err
	}
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}
	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}
	err = r.putSystem(ctx, false, event, func(item) limiter.Config { return cfg })
	r.configChanged(ctx, ev.At, cfg.Scope, err)
	return err
}
