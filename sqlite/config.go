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

// SetConfig stores limits, a mode or both, with their event.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	cfg.Limits = slices.Clone(cfg.Limits)
	ev, err := own(ev)
	if err != nil {
		return err
	}
	return r.change(ctx, ev.At, func(tx *tx) error {
		stored, err := tx.config(r.key, cfg.Scope)
		if err != nil && (cfg.Limits == nil || !isCorrupt(err)) { // damaged limits may be replaced
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
		if err := r.sync(tx, ev.At.UnixMilli(), cfg.Scope); err != nil {
			return tx.fail(err) // the change is written already
		}
		return r.record(tx, ev)
	})
}

// Config is what a scope holds.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (cfg limiter.Config, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.facts(tx); err != nil {
			return err
		}
		cfg, err = tx.config(r.key, s)
		return err
	})
	cfg.Limits = rules.Sorted(cfg.Limits) // a copy: what was parsed is shared
	return cfg, err
}

func (t *tx) config(ns int64, s limiter.Scope) (limiter.Config, error) {
	var limits, mode string
	err := t.row("SELECT limits, on_unavailable FROM configs WHERE ns = ? AND entity = ? AND resource = ?", ns, s.Entity, s.Resource).scan(&limits, &mode)
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
		return nil, &limiter.CorruptError{Item: fmt.Sprintf("%s: limits of %s", t.file.path, rules.ScopeName(s)), Reason: err.Error()}
	}
	return limits, nil
}

// resolve is the first level that holds limits, nil if none does.
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
			if err != nil || len(limits) > 0 {
				return limits, s, err
			}
		}
	}
	return nil, limiter.Scope{}, nil
}

// DeleteConfig removes what a scope holds. ErrNotFound.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	ev, err := own(ev)
	if err != nil {
		return err
	}
	return r.change(ctx, ev.At, func(tx *tx) error {
		cfg, err := tx.config(r.key, s)
		if err != nil && !isCorrupt(err) {
			return err
		}
		n, err := tx.exec("DELETE FROM configs WHERE ns = ? AND entity = ? AND resource = ?", r.key, s.Entity, s.Resource)
		if err == nil && n == 0 {
			return fmt.Errorf("limits of %s: %w", rules.ScopeName(s), limiter.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err := r.sync(tx, ev.At.UnixMilli(), s); err != nil {
			return tx.fail(err) // the change is written already
		}
		return r.record(tx, rules.Deleted(cfg, ev))
	})
}

// OnUnavailable is the stored mode as last seen.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	return r.seen.Load().mode
}

// ResourcesWithDefaults are the resources that have limits, sorted.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return r.names(ctx, "SELECT resource FROM configs WHERE ns = ? AND entity = '' AND resource <> '' ORDER BY resource", r.key)
}

// ResourcesWithLimits are the resources for which an entity has limits, sorted.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return r.names(ctx, "SELECT DISTINCT resource FROM configs WHERE ns = ? AND entity <> '' ORDER BY resource", r.key)
}

// EntitiesWithLimits are the entities that have limits for a resource, sorted.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return rules.Pages(func(after string) (page []string, next *string, err error) {
		page, err = r.names(ctx, "SELECT entity FROM configs WHERE ns = ? AND resource = ? AND entity > ? ORDER BY entity LIMIT ?",
			r.key, resource, after, pageSize)
		if len(page) == pageSize {
			next = &page[len(page)-1]
		}
		return page, next, err
	})
}

func (r *Repository) names(ctx context.Context, query string, args ...any) (all []string, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.facts(tx); err != nil {
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
