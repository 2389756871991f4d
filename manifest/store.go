package manifest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Store is what a repository has besides [limiter.Repository], so that a
// manifest can be applied to it: it remembers, for its namespace, which scopes
// are managed, and a hash. The stores of this module have it.
type Store interface {
	// Managed is what was stored last, by entity, then resource; nothing at
	// first. ErrNotFound (namespace gone), ErrClosed; anything else is an outage.
	Managed(ctx context.Context) (scopes []limiter.Scope, hash string, err error)
	// SetManaged replaces both in one write, if previous is the stored hash, ""
	// at first; ErrConflict if it is not. *InvalidError if there are more scopes
	// than the store can list; else the errors of Managed.
	SetManaged(ctx context.Context, now time.Time, previous, hash string, scopes []limiter.Scope) error
}

// Options are those of plans. The zero value of a field is its default.
type Options struct {
	// Now is when changes happen, for the audit trail; default time.Now. Waiting
	// is done in real time.
	Now func() time.Time
	// Principal signs changes in the audit trail; default: the store's own
	// identity, if it has one.
	Principal string
	// Waiting is called when another apply is at work, which is then waited for.
	Waiting func()
}

// target is the namespace that a manifest is for.
type target struct {
	lim     *limiter.RateLimiter
	store   Store
	now     func() time.Time
	waiting func()
}

// enter is a namespace of a repository, or its own if the name is empty.
func enter(ctx context.Context, repo limiter.Repository, namespace string, opts *Options) (*target, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Waiting == nil {
		o.Waiting = func() {}
	}
	if namespace != "" {
		view, err := repo.Namespace(ctx, namespace)
		if err != nil {
			return nil, err
		}
		repo = view
	}
	store, ok := repo.(Store)
	if !ok {
		return nil, fmt.Errorf("this store cannot remember what a manifest manages: %w", errors.ErrUnsupported)
	}
	lim, err := limiter.New(repo, &limiter.Options{Now: o.Now, Principal: o.Principal})
	if err != nil {
		return nil, err
	}
	return &target{lim, store, o.Now, o.Waiting}, nil
}

// state is what the store remembers.
type state struct {
	scopes []limiter.Scope
	hash   string
}

func (t *target) state(ctx context.Context) (state, error) {
	scopes, hash, err := t.store.Managed(ctx)
	if err != nil {
		return state{}, fmt.Errorf("reading what is managed: %w", err)
	}
	return state{scopes, hash}, nil
}

// config is what a scope holds.
func (t *target) config(ctx context.Context, s limiter.Scope) (cfg limiter.Config, err error) {
	cfg.Scope = s
	switch Level(s) {
	case "entity":
		cfg.Limits, err = t.lim.Limits(ctx, s.Entity, s.Resource)
	case "resource":
		cfg.Limits, err = t.lim.ResourceDefaults(ctx, s.Resource)
	default:
		cfg.Limits, cfg.OnUnavailable, err = t.lim.SystemDefaults(ctx)
	}
	return cfg, err
}
