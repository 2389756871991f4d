package sqlite

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetSwitch turns a level off, and stores the audit event. A level that is off
// keeps its time.
func (r *Repository) SetSwitch(ctx context.Context, off limiter.Switch, ev limiter.AuditEvent) error {
	ev, err := detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		_, err := tx.exec(`INSERT INTO switches (ns, entity, resource, reason, since) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET reason = excluded.reason`, r.key, off.Scope.Entity, off.Scope.Resource,
			off.Reason, off.Since.Unix())
		if err != nil {
			return err
		}
		return r.switched(tx, ev)
	})
}

// DeleteSwitch turns a level on, and stores the audit event. The error matches
// limiter.ErrNotFound if the level is not off.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	ev, err := detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		n, err := tx.exec("DELETE FROM switches WHERE ns = ? AND entity = ? AND resource = ?", r.key, of.Entity,
			of.Resource)
		if err == nil && n == 0 {
			return rules.NotOff(of)
		}
		if err != nil {
			return err
		}
		return r.switched(tx, ev)
	})
}

// switched marks the generation that r.change starts next as a change of switches,
// and stores the event.
func (r *Repository) switched(tx *tx, ev limiter.AuditEvent) error {
	if _, err := tx.exec("UPDATE namespaces_v7 SET switched = facts + 1 WHERE key = ?", r.key); err != nil {
		return err
	}
	return r.record(tx, ev)
}

// Switches iterates over the levels that are off, by entity, then resource.
func (r *Repository) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return rules.Sequence(func() (all []limiter.Switch, err error) {
		err = r.read(ctx, func(tx *tx) error {
			generation, err := r.requireActive(tx)
			if err != nil {
				return err
			}

			facts, err := r.factsAt(tx, generation)
			if err == nil {
				all = facts.switches.Sorted()
			}
			return err
		})
		return all, err
	})
}

// LastSwitch returns the switch that refused the charges of an entity and a
// resource when this process last read the file, or nil.
func (r *Repository) LastSwitch(entity, resource string) *limiter.Switch {
	return r.facts.Load().switches.Refusing(r.chains.of(entity).entities, resource)
}
