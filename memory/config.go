package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetConfig stores limits, a mode or both, with their event.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if merged := rules.Merged(r.configs[cfg.Scope], cfg); !rules.Empty(merged) {
		r.configs[cfg.Scope] = merged
	}
	r.changed(ev)
	return r.sync(ev.At.UnixMilli(), cfg.Scope)
}

// Config is what a scope holds.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	if err := r.usable(ctx); err != nil {
		return limiter.Config{}, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	cfg := r.configs[s]
	cfg.Scope = s
	cfg.Limits = slices.Clone(cfg.Limits)
	return cfg, nil
}

// DeleteConfig removes what a scope holds. ErrNotFound.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, ok := r.configs[s]
	if !ok {
		return fmt.Errorf("limits of %s: %w", rules.ScopeName(s), limiter.ErrNotFound)
	}
	delete(r.configs, s)
	r.changed(rules.Deleted(cfg, ev))
	return r.sync(ev.At.UnixMilli(), s)
}

// changed makes the next charge look limits up again. The caller holds mu.
func (n *namespace) changed(ev limiter.AuditEvent) {
	n.mode.Store(n.configs[limiter.Scope{}].OnUnavailable)
	n.facts.Add(1)
	n.record(ev)
}

// OnUnavailable is the stored mode.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	return r.mode.Load().(limiter.OnUnavailable)
}

// ResourcesWithDefaults are the resources that have limits, sorted.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return r.scopes(ctx, func(s limiter.Scope) (string, bool) { return s.Resource, s.Entity == "" && s.Resource != "" })
}

// ResourcesWithLimits are the resources for which an entity has limits, sorted.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return r.scopes(ctx, func(s limiter.Scope) (string, bool) { return s.Resource, s.Entity != "" })
}

// EntitiesWithLimits are the entities that have limits for a resource, sorted.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return rules.Sequence(func() ([]string, error) {
		return r.scopes(ctx, func(s limiter.Scope) (string, bool) { return s.Entity, s.Entity != "" && s.Resource == resource })
	})
}

// scopes are the distinct names that pick takes from scopes with limits.
func (r *Repository) scopes(ctx context.Context, pick func(limiter.Scope) (string, bool)) ([]string, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := map[string]bool{}
	for s := range r.configs {
		if name, ok := pick(s); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
