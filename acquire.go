package limiter

import (
	"context"
	"errors"
	"slices"
)

// Request describes one acquire.
type Request struct {
	Entity, Resource string // who uses what
	// Consume names at least one limit. No amount is negative; 0 requires that the
	// limit is not in debt.
	Consume Amounts
	// Limits, if not nil, judges this call in place of the stored limits, for the
	// entity and for its parent, not for ancestors above it. It changes no stored limit, and takes from the
	// same bucket. For example, where 100 a minute are stored, a call with 10 a
	// minute can take at most 10 of what those 100 have left.
	//
	// A bucket that the call creates has these limits. An existing bucket gets
	// those that it lacks, and keeps its own. There is one exception: if no level
	// and no default holds a limit of that name, a quota in Limits replaces the
	// limit of the bucket, so that the next call with the same quota finds what is
	// left of it.
	Limits        []Limit
	OnUnavailable OnUnavailable // "" means Options.OnUnavailable
}

// Validate checks r without the store. The error is an *[InvalidError].
func (r Request) Validate() error { return r.validate() }

// validate implements Validate without copying r, for the hot path.
func (r *Request) validate() error {
	if err := r.validateTarget(); err != nil {
		return err
	}
	return validCharge(&r.Consume)
}

// validateTarget checks everything but the amounts.
func (r *Request) validateTarget() error {
	if err := validEntity(r.Entity); err != nil {
		return err
	}

	if err := validResource(r.Resource); err != nil {
		return err
	}

	if r.Limits != nil {
		if err := validLimits(r.Limits); err != nil {
			return err
		}
	}
	return r.OnUnavailable.validate()
}

func (l *RateLimiter) charge(r *Request) Charge {
	return Charge{Entity: r.Entity, Resource: r.Resource, Amounts: r.Consume, Limits: r.Limits, Defaults: l.defaults}
}

// Acquire takes the requested amounts from the entity and, if it cascades, from
// its ancestors. It takes everything or nothing, and stores the charge before it
// returns. The caller must end the lease with Commit or Rollback.
//
// Acquire returns an *ExceededError if a limit does not cover its amount, a
// *DisabledError if a level is switched off, an *UnavailableError in an outage, an
// *InvalidError for bad input, a *CorruptError for damaged data, ErrNotFound if the
// namespace is gone, ErrClosed, or the error of a cancelled context. A deadline that
// passes inside the store counts as an outage.
func (l *RateLimiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	// A deadline that passes in the store is an outage, which Allow admits. One
	// that passed before the call must admit nothing.
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	if err := req.validate(); err != nil {
		return nil, err
	}

	storeCtx := ctx
	// This repeats withTimeout, whose closure costs measurable time here.
	if l.timeout > 0 {
		var cancel context.CancelFunc
		storeCtx, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}

	out, err := l.repo.Consume(storeCtx, l.now(), l.charge(&req))
	if err != nil {
		err = translateError(ctx, "acquire", req.Entity, req.Resource, err)
		// An outage admits no call of a level that was off when the store last
		// read it: a leaked key stays stopped.
		if isType[*UnavailableError](err) && l.outageMode(req.OnUnavailable) == Allow {
			if off := l.repo.LastSwitch(req.Entity, req.Resource); off != nil {
				return nil, off.Refuse(req.Entity, req.Resource)
			}
			return &Lease{lim: l, extra: &extra{mode: Allow, outage: err}}, nil
		}

		return nil, err
	}

	if !out.Admitted {
		charge := l.charge(&req)
		return nil, &ExceededError{newDecision(&charge, out)}
	}

	lease := &Lease{lim: l, amounts: req.Consume, payers: out.Payers}
	// Most leases need no extra. Later calls of the lease use the limits and the
	// mode again. The limits are copied, because the lease outlives the call.
	if req.Limits != nil || req.OnUnavailable != "" {
		lease.extra = &extra{mode: req.OnUnavailable, limits: slices.Clone(req.Limits)}
	}

	return lease, nil
}

// withTimeout applies Options.Timeout to ctx.
func (l *RateLimiter) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout > 0 {
		return context.WithTimeout(ctx, l.timeout)
	}
	return ctx, func() {}
}

// Do acquires a lease and calls work. It commits the lease if work returns nil,
// and rolls it back if work returns an error or panics. Do returns the error of
// Acquire, of work, or of the commit. If work ended the lease itself, the error
// is ErrLeaseDone. If the rollback fails too, the returned error wraps both.
func (l *RateLimiter) Do(ctx context.Context, req Request, work func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}

	finished := false
	defer func() {
		// work may panic or call runtime.Goexit.
		if !finished {
			_ = lease.Rollback(ctx)
		}
	}()

	err = work(ctx, lease)
	finished = true
	if err != nil {
		return joinErrors(err, lease.Rollback(ctx))
	}
	return lease.Commit(ctx)
}

// joinErrors returns err itself if second is nil, and otherwise wraps both.
// errors.Join would wrap a single error too, and callers may compare the error of
// their work.
func joinErrors(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// settleContext returns a context with the values of ctx, without its
// cancellation, and with SettleTimeout as its deadline. Work often ends because its
// context did, and its lease has to be settled all the same.
func (l *RateLimiter) settleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), l.settleTimeout)
}
