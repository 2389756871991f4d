package memory

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Managed are the scopes that a manifest rules, and the hash stored with them.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash string, err error) {
	if err := r.usable(ctx); err != nil {
		return nil, "", err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.managed.Scopes), r.managed.Hash, nil
}

// SetManaged replaces both, if previous is the stored hash; ErrConflict.
func (r *Repository) SetManaged(ctx context.Context, _ time.Time, previous, hash string, scopes []limiter.Scope) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.managed.Replace(previous, hash, scopes)
	r.managed = next
	return err
}
