package dynamo

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// ConfigListed is Config, and whether lists show what is there: Python's
// provisioner writes bare items, which are in no index and no registry.
func (r *Repository) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	if err := r.usable(ctx); err != nil {
		return limiter.Config{}, false, err
	}
	it, err := r.get(ctx, configKey(r.ns, s.Entity, s.Resource))
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
	if err := r.changeable(ctx, ev.At); err != nil {
		return err
	}
	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}
	err = r.replaceSystem(ctx, cfg, event)
	r.configChanged(ctx, ev.At, cfg.Scope, err)
	return err
}

// replaceSystem writes the item of the system anew, but for what is not for this
// package to change.
func (r *Repository) replaceSystem(ctx context.Context, cfg limiter.Config, event types.TransactWriteItem) error {
	k := configKey(r.ns, "", "")
	for try := 0; ; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		stored, err := r.get(ctx, k)
		if err != nil {
			return err
		}
		it := newItem(r.ns, k)
		maps.Copy(it, carried(stored))
		it.setLimits(cfg.Limits)
		if cfg.OnUnavailable != "" {
			it[attrMode] = text(string(cfg.OnUnavailable))
		}
		err = r.change(ctx, r.putIf(it, unchanged(stored, false)), event)
		if err == nil {
			r.modes.Store(r.ns, cfg.OnUnavailable)
		}
		if _, changed := refusedAt(err, 0); !changed || try == mostTries {
			return err
		}
	}
}
