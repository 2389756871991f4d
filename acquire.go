package limiter

import (
	"context"
	"errors"
	"slices"
)

// Request is one acquire.
type Request struct {
	Entity, Resource string  // who pays, and for what
	Consume          Amounts // at least one limit, none negative; 0 = must not be in debt
	// Limits, when not nil, judge and refill this one call instead of the stored
	// limits, for the entity and its parent. They shape a bucket that is new,
	// and change no stored limit.
	Limits        []Limit
	OnUnavailable OnUnavailable // "" = Options.OnUnavailable
}

// Validate is nil or an *[InvalidError]: what Acquire refuses without asking the
// store.
func (r Request) Validate() error { return r.validate() }

// validate is Validate without a copy, for the calls that count.
func (r *Request) validate() error {
	if err := r.validateTarget(); err != nil {
		return err
	}
	return validCharge(&r.Consume)
}

// validateTarget is validate for calls that may ask for nothing.
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

// Acquire takes what req asks for, from the entity and, if it cascades, its
// parent: everything or nothing, stored when it returns. The lease it returns
// must be ended by Commit or Rollback.
//
// Errors: *ExceededError, *UnavailableError, *InvalidError, *CorruptError,
// ErrNotFound when the namespace is gone, ErrClosed, or the error of a context
// that was cancelled. A deadline that passes inside the store is an outage.
func (l *RateLimiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := req.validate(); err != nil {
		return nil, err
	}
	inTime := ctx
	if l.timeout > 0 { // not by limited: here it would show in the benchmark
		var cancel context.CancelFunc
		inTime, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}
	out, err := l.repo.Consume(inTime, l.now(), l.charge(&req))
	if err != nil {
		err = failure(ctx, "acquire", req.Entity, req.Resource, err)
		if isType[*UnavailableError](err) && l.outageMode(req.OnUnavailable) == Allow {
			return &Lease{lim: l, sequel: &sequel{mode: Allow, outage: err}}, nil
		}
		return nil, err
	}
	if !out.Admitted {
		charge := l.charge(&req)
		return nil, &ExceededError{decide(&charge, out)}
	}
	lease := &Lease{lim: l, amounts: req.Consume, self: out.Self, parent: out.Parent}
	if req.Limits != nil || req.OnUnavailable != "" {
		lease.sequel = &sequel{mode: req.OnUnavailable, limits: slices.Clone(req.Limits)} // the lease outlives the call
	}
	return lease, nil
}

// limited is ctx with Timeout, if there is one.
func (l *RateLimiter) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout > 0 {
		return context.WithTimeout(ctx, l.timeout)
	}
	return ctx, func() {}
}

// Do runs work under a lease: nil commits, an error or a panic rolls back. It
// returns the error of Acquire, of work, or of the commit; ErrLeaseDone if work
// ended the lease itself. A rollback that fails shows in the error of work only
// by [errors.Is].
func (l *RateLimiter) Do(ctx context.Context, req Request, work func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	finished := false
	defer func() {
		if !finished { // a panic, or runtime.Goexit, is under way
			_ = lease.Rollback(ctx)
		}
	}()
	err = work(ctx, lease)
	finished = true
	if err != nil {
		return joined(err, lease.Rollback(ctx))
	}
	return lease.Commit(ctx)
}

// joined is err alone, or with a second error that came of handling it.
func joined(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// settleContext keeps the values of ctx, drops its cancellation, and gives the
// work its own time.
func (l *RateLimiter) settleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), l.settle)
}
