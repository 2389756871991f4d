package manifest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Options configures plans and applies. The zero value of a field means its
// default.
type Options struct {
	// Now returns the time of changes in the audit trail; default time.Now.
	// Waiting uses real time.
	Now func() time.Time
	// Principal is the author of changes in the audit trail; default: the store's
	// own identity, if it has one.
	Principal string
	// Waiting, if not nil, is called before Apply waits for another apply.
	Waiting func()
	// Forget replaces a damaged list of managed levels by an empty one. The
	// levels stay stored, and are no longer managed unless they are declared.
	Forget bool

	// ownership returns the owner after the apply, and whether only the owner
	// changes. The default is the owner after a manual apply.
	ownership func(known state) (next owner, ownerOnly bool, err error)
	wall      func() time.Time // wall clock, which runs while the process is stopped
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
		all.ownership = func(known state) (owner, bool, error) { return known.owner.afterManualApply(), false, nil }
	}
	if all.wall == nil {
		// Round drops the monotonic clock, which stops while a machine sleeps.
		all.wall = func() time.Time { return time.Now().Round(0) }
	}
	return all
}

// target is the namespace that a manifest is applied to.
type target struct {
	Options
	lim   *limiter.RateLimiter
	repo  limiter.Repository
	store limiter.ManagedStore // repo
}

// newTarget opens a namespace of a repository. If the name is empty, it opens
// the namespace of the repository itself.
func newTarget(ctx context.Context, repo limiter.Repository, namespace string, opts *Options) (*target, error) {
	o := opts.withDefaults()
	if namespace != "" {
		view, err := repo.Namespace(ctx, namespace)
		if err != nil {
			return nil, err
		}
		repo = view
	}

	store, ok := limiter.Optional[limiter.ManagedStore](repo)
	if !ok {
		return nil, fmt.Errorf("this store cannot list the levels that a manifest manages: %w", errors.ErrUnsupported)
	}

	lim, err := limiter.New(replacingRepository{repo, store}, &limiter.Options{Now: o.Now, Principal: o.Principal})
	if err != nil {
		return nil, err
	}
	return &target{o, lim, repo, store}, nil
}

// replacingRepository is a repository whose SetConfig replaces the whole level.
// One write therefore stores a level as declared, whatever it was before.
type replacingRepository struct {
	limiter.Repository
	store limiter.ManagedStore
}

// SetConfig replaces the level by cfg. If cfg has no limits, the event records
// that they were removed.
func (r replacingRepository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	if len(cfg.Limits) == 0 {
		// Without the field, the event would look as if the limits had stayed.
		ev.Details["limits"] = []any{}
	}
	return r.store.ReplaceConfig(ctx, cfg, ev)
}

// write makes a change through the limiter, which audits it, updates the lists
// and applies it to live buckets.
func (t *target) write(ctx context.Context, c Change) error {
	s, limits := c.Scope, c.After.Limits
	switch level := Level(s); {
	case level == "system" && isEmpty(c.After):
		return t.lim.DeleteSystemDefaults(ctx)
	case level == "system":
		return t.lim.SetSystem(ctx, c.After.OnUnavailable, limits...)
	case level == "resource" && len(limits) == 0:
		return t.lim.DeleteResourceDefaults(ctx, s.Resource)
	case level == "resource":
		return t.lim.SetResourceDefaults(ctx, s.Resource, limits...)
	case len(limits) == 0:
		return t.lim.DeleteLimits(ctx, s.Entity, s.Resource)
	}
	return t.lim.SetLimits(ctx, s.Entity, s.Resource, limits...)
}
