package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// recheck is the longest that the store is not asked for what some waiters lack:
// another process may have given tokens back. One of them asks for all.
const recheck = 5 * time.Second

// Wait is Acquire that waits until req fits. Waiters of one entity and resource
// at this limiter and its views are served in order of arrival; an Acquire does
// not queue.
//
// It returns at once what waiting cannot mend: an *ExceededError that matches
// ErrNeverFits, bad input, an outage (or the lease that Allow gives). If the
// deadline of ctx is too near, the error is both the *ExceededError and
// context.DeadlineExceeded; if ctx ends while waiting, the refusal seen last and
// the error of ctx.
func (l *RateLimiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := req.validate(); err != nil {
		return nil, err
	}
	me, first := l.lines.join(place{l.space, req.Entity, req.Resource}, spaceOf(l.repo, ""))
	defer func() { l.lines.leave(me, time.Now()) }()
	if !first {
		if err := l.queue(ctx, req, me); err != nil {
			return nil, err
		}
	}
	for {
		l.lines.asks(me)
		lease, err := l.Acquire(ctx, req)
		refusal, ok := errors.AsType[*ExceededError](err)
		if !ok {
			if err == nil {
				l.lines.served(me, lease, time.Now())
			}
			return lease, err
		}
		wait := l.lines.refused(me, refusal.Decision, time.Now())
		if err := hopeless(ctx, refusal); err != nil {
			return nil, err
		}
		if !wait {
			continue
		}
		if err := l.pause(ctx, refusal, me); err != nil {
			return nil, err
		}
	}
}

// queue waits for its turn, unless there is no point in waiting.
func (l *RateLimiter) queue(ctx context.Context, req Request, me *waiter) error {
	d, err := l.Explain(ctx, req)
	if err != nil && !isType[*UnavailableError](err) { // in an outage the first in line finds out what to do
		return err
	}
	refusal := &ExceededError{d}
	if err == nil && !d.Admitted() {
		if err := hopeless(ctx, refusal); err != nil {
			return err
		}
	}
	select {
	case <-me.turn:
		return nil
	case <-ctx.Done():
		if d.Admitted() {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", refusal, ctx.Err())
	}
}

// hopeless is the error to return when waiting would not end well.
func hopeless(ctx context.Context, refusal *ExceededError) error {
	if refusal.NeverFits() {
		return refusal
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < refusal.RetryAfter() {
		return fmt.Errorf("%w: %w", refusal, context.DeadlineExceeded)
	}
	return nil
}

// pause sleeps until it is time to ask again.
func (l *RateLimiter) pause(ctx context.Context, refusal *ExceededError, me *waiter) error {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	for {
		sleep := l.lines.sleep(me, time.Now())
		if sleep <= 0 {
			return nil
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-me.wake:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", refusal, ctx.Err())
		}
	}
}
