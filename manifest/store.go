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
// are managed, a hash, and an owner. The stores of this module have it.
type Store interface {
	// Managed is what was stored last, by entity, then resource; nothing at
	// first. *CorruptError if the scopes cannot be read: hash and owner are right
	// even so. ErrNotFound (namespace gone), ErrClosed; anything else is an outage.
	Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error)
	// SetManaged replaces all of it in one write, if previous is the stored hash,
	// "" at first; ErrConflict if it is not. *InvalidError if there are more scopes
	// than the store can list; else the errors of Managed, but what is damaged may
	// be replaced.
	SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error
	// ReplaceConfig is SetConfig that keeps nothing of what the scope held, in one
	// write: without limits or without a mode, it has none from then on. What
	// would hold nothing at all is for DeleteConfig.
	ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error
}

// Lister is a [Store] that may hold limits that its lists do not show, because
// another program stored them. Applying writes them again.
type Lister interface {
	// ConfigListed is Config, and whether lists show what is stored.
	ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error)
}

// Bounded is a [Store] that cannot list any number of scopes.
type Bounded interface {
	// CheckManaged is an *InvalidError if SetManaged would refuse so many.
	CheckManaged(scopes []limiter.Scope) error
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
	// Forget begins a new list where that of what is managed is damaged. What was
	// on it stays stored as it is, and is managed no longer unless it is declared.
	Forget bool

	// ownership says who owns what is managed after an apply, given what is known
	// before, and whether all stays as it is but for that. Nil is by hand.
	ownership func(known state) (next owner, keep bool, err error)
	wall      func() time.Time // the clock that goes on while a process is stopped
}

func (o *Options) withDefaults() Options {
	var all Options
	if o != nil {
		all = *o
	}
	if all.Now == nil {
		all.Now = time.Now
	}
	if all.Waiting == nil {
		all.Waiting = func() {}
	}
	if all.ownership == nil {
		all.ownership = func(known state) (owner, bool, error) { return known.owner.taken(), false, nil }
	}
	if all.wall == nil {
		all.wall = func() time.Time { return time.Now().Round(0) }
	}
	return all
}

// target is the namespace that a manifest is for.
type target struct {
	Options
	lim   *limiter.RateLimiter
	store Store
}

// enter is a namespace of a repository, or its own if the name is empty.
func enter(ctx context.Context, repo limiter.Repository, namespace string, opts *Options) (*target, error) {
	o := opts.withDefaults()
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
	lim, err := limiter.New(exactly{repo, store}, &limiter.Options{Now: o.Now, Principal: o.Principal})
	if err != nil {
		return nil, err
	}
	return &target{o, lim, store}, nil
}
