package manifest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

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
	store limiter.ManagedStore
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
	store, ok := repo.(limiter.ManagedStore)
	if !ok {
		return nil, fmt.Errorf("this store cannot remember what a manifest manages: %w", errors.ErrUnsupported)
	}
	lim, err := limiter.New(exactly{repo, store}, &limiter.Options{Now: o.Now, Principal: o.Principal})
	if err != nil {
		return nil, err
	}
	return &target{o, lim, store}, nil
}
