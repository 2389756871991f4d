package sqlite

import (
	"context"
	"encoding/json"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// ReplaceConfig stores exactly this, whatever the scope held, with its event.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	next := rules.Merged(limiter.Config{}, cfg)
	limits, err := json.Marshal(next.Limits)
	if err != nil {
		return err
	}
	ev, err = own(ev)
	if err != nil {
		return err
	}
	return r.change(ctx, ev.At, func(tx *tx) error {
		if _, err := tx.exec(`INSERT OR REPLACE INTO configs (ns, entity, resource, limits, on_unavailable) VALUES (?, ?, ?, ?, ?)`,
			r.key, next.Scope.Entity, next.Scope.Resource, string(limits), string(next.OnUnavailable)); err != nil {
			return err
		}
		if err := r.sync(tx, ev.At.UnixMilli(), next.Scope); err != nil {
			return tx.fail(err) // the change is written already
		}
		return r.record(tx, ev)
	})
}
