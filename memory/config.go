package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetConfig stores limits, a mode or both, and the audit event.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	// A config that held nothing and gains nothing is not stored, so that
	// listings stay without empty scopes.
	if merged := rules.Merged(r.configs[cfg.Scope], cfg); !rules.Empty(merged) {
		r.configs[cfg.Scope] = merged
	}

	r.configChanged(ev)
	return r.repairBucket(ev.At.UnixMilli(), cfg.Scope)
}

// Config returns the stored config of a scope, which may be empty.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	if err := r.requireActive(ctx); err != nil {
		return limiter.Config{}, err
	}

	r.mu.RLock()
	defer r.mu.RUnlock()
	cfg := r.configs[s]
	cfg.Scope = s
	cfg.Limits = slices.Clone(cfg.Limits)
	return cfg, nil
}

// DeleteConfig removes the config of a scope. The error matches
// limiter.ErrNotFound if there is none.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	cfg, ok := r.configs[s]
	if !ok {
		return fmt.Errorf("limits of %s: %w", rules.ScopeName(s), limiter.ErrNotFound)
	}

	delete(r.configs, s)
	r.configChanged(rules.Deleted(cfg, ev))
	return r.repairBucket(ev.At.UnixMilli(), s)
}

// configChanged records the event of a change and starts a new generation, so
// that the next charge of each bucket looks its limits up. The caller holds mu.
func (n *namespace) configChanged(ev limiter.AuditEvent) {
	n.mode.Store(n.configs[limiter.Scope{}].OnUnavailable)
	n.generation.Add(1)
	n.record(ev)
}

// OnUnavailable returns the stored mode.
func (r *Repository) OnUnavailable() limiter.OnUnavailable {
	return r.mode.Load().(limiter.OnUnavailable)
}

// ResourcesWithDefaults returns the resources that have limits, sorted.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return r.scopeNames(ctx, func(s limiter.Scope) (string, bool) {
		return s.Resource, s.Entity == "" && s.Resource != ""
	})
}

// ResourcesWithLimits returns the resources for which an entity has limits,
// sorted.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return r.scopeNames(ctx, func(s limiter.Scope) (string, bool) { return s.Resource, s.Entity != "" })
}

// EntitiesWithLimits iterates over the entities that have limits for a resource,
// sorted.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return rules.Sequence(func() ([]string, error) {
		return r.scopeNames(ctx, func(s limiter.Scope) (string, bool) {
			return s.Entity, s.Entity != "" && s.Resource == resource
		})
	})
}

// scopeNames returns the distinct names that pick selects from stored scopes,
// sorted.
func (r *Repository) scopeNames(ctx context.Context, pick func(limiter.Scope) (string, bool)) ([]string, error) {
	if err := r.requireActive(ctx); err != nil {
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

// Managed returns the scopes that a manifest manages, its hash and its owner.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	if err := r.requireActive(ctx); err != nil {
		return nil, "", "", err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.managed.Scopes), r.managed.Hash, r.managed.Owner, nil
}

// SetManaged replaces the scopes, the hash and the owner if previous is the stored
// hash. Otherwise the error matches limiter.ErrConflict.
func (r *Repository) SetManaged(
	ctx context.Context, _ time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.managed.Replace(previous, hash, owner, scopes)
	r.managed = next
	return err
}

// ReplaceConfig replaces the config of a scope as a whole, and stores the audit
// event.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.configs[cfg.Scope] = rules.Merged(limiter.Config{}, cfg)
	r.configChanged(ev)
	return r.repairBucket(ev.At.UnixMilli(), cfg.Scope)
}
