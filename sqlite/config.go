package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetConfig stores limits, a mode or both, and the audit event.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	// The work may outlive its caller, so it shares no memory with it.
	cfg.Limits = slices.Clone(cfg.Limits)
	ev, err := detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		stored, err := tx.config(r.key, cfg.Scope)
		// New limits replace damaged ones.
		if err != nil && (cfg.Limits == nil || !isCorrupt(err)) {
			return err
		}

		merged := rules.Merged(stored, cfg)
		if rules.Empty(merged) {
			return r.record(tx, ev)
		}

		limits, err := json.Marshal(merged.Limits)
		if err != nil {
			return err
		}

		if _, err := tx.exec(`INSERT INTO configs (ns, entity, resource, limits, on_unavailable) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET limits = excluded.limits, on_unavailable = excluded.on_unavailable`,
			r.key, cfg.Scope.Entity, cfg.Scope.Resource, string(limits), string(merged.OnUnavailable)); err != nil {
			return err
		}

		// From here on the change is written, so that an error has to fail the
		// transaction.
		if err := r.repairBucket(tx, ev.At.UnixMilli(), cfg.Scope); err != nil {
			return tx.fail(err)
		}
		return r.record(tx, ev)
	})
}

// Config returns the stored config of a scope, which may be empty.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (cfg limiter.Config, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
			return err
		}
		cfg, err = tx.config(r.key, s)
		return err
	})

	// The cache shares its slices, so this is a copy.
	cfg.Limits = rules.Sorted(cfg.Limits)
	return cfg, err
}

func (t *tx) config(ns int64, s limiter.Scope) (limiter.Config, error) {
	var limits, mode string

	err := t.row("SELECT limits, on_unavailable FROM configs WHERE ns = ? AND entity = ? AND resource = ?", ns,
		s.Entity, s.Resource).scan(&limits, &mode)
	if errors.Is(err, errNoRow) {
		return limiter.Config{Scope: s}, nil
	}
	if err != nil {
		return limiter.Config{}, err
	}

	list, err := t.configLimits(s, limits)
	return limiter.Config{Scope: s, Limits: list, OnUnavailable: limiter.OnUnavailable(mode)}, err
}

func (t *tx) configLimits(s limiter.Scope, text string) ([]limiter.Limit, error) {
	limits, err := t.file.parsed.limits(text)
	if err != nil {
		return nil, &limiter.CorruptError{
			Item: fmt.Sprintf("%s: limits of %s", t.file.path, rules.ScopeName(s)), Reason: err.Error(),
		}
	}
	return limits, nil
}

// resolve returns the limits of the first level that has any, and that level. The
// limits are nil if none has.
func (t *tx) resolve(ns int64, key limiter.Scope) ([]limiter.Limit, limiter.Scope, error) {
	held := map[limiter.Scope]string{}
	err := t.query(func(scan func(...any) error) error {
		var s limiter.Scope
		var limits string
		err := scan(&s.Entity, &s.Resource, &limits)
		held[s] = limits
		return err
	}, `SELECT entity, resource, limits FROM configs WHERE ns = ?1 AND
		(entity, resource) IN (VALUES (?2, ?3), (?2, ''), ('', ?3), ('', ''))`, ns, key.Entity, key.Resource)
	if err != nil {
		return nil, limiter.Scope{}, err
	}
	for _, s := range limiter.Precedence(key.Entity, key.Resource) {
		if text, ok := held[s]; ok {
			limits, err := t.configLimits(s, text)
			// The row of the system may hold a mode alone.
			if err != nil || len(limits) > 0 {
				return limits, s, err
			}
		}
	}
	return nil, limiter.Scope{}, nil
}

// DeleteConfig removes the config of a scope. The error matches
// limiter.ErrNotFound if there is none.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	ev, err := detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		cfg, err := tx.config(r.key, s)
		// Damaged limits can be deleted.
		if err != nil && !isCorrupt(err) {
			return err
		}

		n, err := tx.exec("DELETE FROM configs WHERE ns = ? AND entity = ? AND resource = ?", r.key, s.Entity,
			s.Resource)
		if err == nil && n == 0 {
			return fmt.Errorf("limits of %s: %w", rules.ScopeName(s), limiter.ErrNotFound)
		}
		if err != nil {
			return err
		}

		// The change is written by now, so that an error has to fail the
		// transaction.
		if err := r.repairBucket(tx, ev.At.UnixMilli(), s); err != nil {
			return tx.fail(err)
		}

		return r.record(tx, rules.Deleted(cfg, ev))
	})
}

// OnUnavailable returns the stored mode as of the last call that read the file.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	return r.facts.Load().mode
}

// ResourcesWithDefaults returns the resources that have limits, sorted.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return r.names(ctx,
		"SELECT resource FROM configs WHERE ns = ? AND entity = '' AND resource <> '' ORDER BY resource", r.key)
}

// ResourcesWithLimits returns the resources for which an entity has limits,
// sorted.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return r.names(ctx, "SELECT DISTINCT resource FROM configs WHERE ns = ? AND entity <> '' ORDER BY resource", r.key)
}

// EntitiesWithLimits iterates over the entities that have limits for a resource,
// sorted.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return rules.Pages(func(after string) (page []string, next *string, err error) {
		page, err = r.names(ctx, "SELECT entity FROM configs WHERE ns = ? AND resource = ? AND entity > ? "+
			"ORDER BY entity LIMIT ?",
			r.key, resource, after, pageSize)
		// A full page may have a successor.
		if len(page) == pageSize {
			next = &page[len(page)-1]
		}
		return page, next, err
	})
}

// names returns the first column of a query.
func (r *Repository) names(ctx context.Context, query string, args ...any) (all []string, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
			return err
		}

		return tx.query(func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			all = append(all, name)
			return err
		}, query, args...)
	})
	return all, err
}
