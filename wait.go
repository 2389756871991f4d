package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// recheckInterval is the longest time for which no waiter of a limit asks the
// store. Another process may have given tokens back. One waiter asks for all.
const recheckInterval = 5 * time.Second

// Wait acquires like Acquire, but waits until req fits. It serves the callers that
// wait for one entity and resource at this limiter and its views in order of
// arrival. Acquire does not queue.
//
// Wait returns at once if waiting cannot help: with an *ExceededError that matches
// ErrNeverFits, with an *InvalidError, or in an outage with an *UnavailableError
// or the lease that [Allow] returns. If the deadline of ctx is too near, the error
// wraps both the *ExceededError and context.DeadlineExceeded. If ctx ends while
// Wait waits, the error wraps the last refusal and the error of ctx.
func (l *RateLimiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := req.validate(); err != nil {
		return nil, err
	}

	w, first := l.queues.join(queueKey{l.namespace, req.Entity, req.Resource}, namespaceID(l.repo, ""))
	defer func() { l.queues.leave(w, time.Now()) }()

	if !first {
		if err := l.awaitTurn(ctx, req, w); err != nil {
			return nil, err
		}
	}

	for {
		l.queues.beforeAcquire(w)
		lease, err := l.Acquire(ctx, req)
		refusal, ok := errors.AsType[*ExceededError](err)
		if !ok {
			if err == nil {
				// The lease shows balances, which correct what the other
				// waiters expect.
				l.queues.admitted(w, lease, time.Now())
			}
			return lease, err
		}
		wait := l.queues.refused(w, refusal.Decision, time.Now())
		// The estimates learn from every refusal, even if this caller gives up.
		if err := waitError(ctx, refusal); err != nil {
			return nil, err
		}

		// The tokens may be there by now, so the next try follows at once.
		if !wait {
			continue
		}

		if err := l.sleep(ctx, refusal, w); err != nil {
			return nil, err
		}
	}
}

// awaitTurn waits until w is first in its queue. It returns early if waiting
// cannot help.
func (l *RateLimiter) awaitTurn(ctx context.Context, req Request, w *waiter) error {
	d, err := l.Explain(ctx, req)
	// In an outage the first waiter of the queue decides what happens.
	if err != nil && !isType[*UnavailableError](err) {
		return err
	}

	refusal := &ExceededError{d}
	if err == nil && !d.Admitted() {
		if err := waitError(ctx, refusal); err != nil {
			return err
		}
	}

	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		// The request fits, so there is no refusal to name.
		if d.Admitted() {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", refusal, ctx.Err())
	}
}

// waitError returns an error if no wait within the deadline of ctx can help.
func waitError(ctx context.Context, refusal *ExceededError) error {
	if refusal.Decision.NeverFits() {
		return refusal
	}

	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < refusal.Decision.RetryAfter() {
		return fmt.Errorf("%w: %w", refusal, context.DeadlineExceeded)
	}
	return nil
}

// sleep blocks until w should ask the store again.
func (l *RateLimiter) sleep(ctx context.Context, refusal *ExceededError, w *waiter) error {
	timer := time.NewTimer(recheckInterval)
	defer timer.Stop()
	for {
		wait := l.queues.sleepTime(w, time.Now())
		if wait <= 0 {
			return nil
		}
		timer.Reset(wait)

		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", refusal, ctx.Err())
		}
	}
}
