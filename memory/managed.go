package memory

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Managed are the scopes that a manifest rules, with the hash and the owner
// stored with them.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	if err := r.usable(ctx); err != nil {
		return nil, "", "", err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.managed.Scopes), r.managed.Hash, r.managed.Owner, nil
}

// SetManaged replaces all three, if previous is the stored hash; ErrConflict.
func (r *Repository) SetManaged(ctx context.Context, _ time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.managed.Replace(previous, hash, owner, scopes)
	r.managed = next
	return err
}

// ReplaceConfig stores exactly this, whatever the scope held, with its event.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configs[cfg.Scope] = rules.Merged(limiter.Config{}, cfg)
	r.changed(ev)
	return r.sync(ev.At.UnixMilli(), cfg.Scope)
}
