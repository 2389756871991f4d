package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// recheck is the longest a waiter sleeps without looking again: another process
// may have given tokens back.
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
	me, first := l.lines.join(place{l.space, req.Entity, req.Resource})
	defer l.lines.leave(me)
	if !first {
		if err := l.queue(ctx, req, me); err != nil {
			return nil, err
		}
	}
	for {
		lease, err := l.Acquire(ctx, req)
		refusal, ok := errors.AsType[*ExceededError](err)
		if !ok {
			return lease, err
		}
		if err := pause(ctx, refusal, me.wake, recheck); err != nil {
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

// pause sleeps until the refused request may fit, or something woke it.
func pause(ctx context.Context, refusal *ExceededError, wake <-chan struct{}, most time.Duration) error {
	if err := hopeless(ctx, refusal); err != nil {
		return err
	}
	timer := time.NewTimer(min(refusal.RetryAfter(), most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", refusal, ctx.Err())
	}
	return nil
}

// lines are the waiters of this process, a line for each entity and resource.
type lines struct {
	mu sync.Mutex
	by map[place][]*waiter
}

// place is where a line stands.
type place struct{ space, entity, resource string }

type waiter struct {
	of   place
	turn chan struct{} // closed when it is first in line
	wake chan struct{} // holds one: something was given back
}

// join goes to the end of a line, and tells whether it is the front.
func (l *lines) join(of place) (me *waiter, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[place][]*waiter{}
	}
	me = &waiter{of: of, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	l.by[me.of] = append(l.by[me.of], me)
	return me, len(l.by[me.of]) == 1
}

// leave takes a waiter out of its line and lets the next one go if it was the
// first.
func (l *lines) leave(me *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.by[me.of]
	for i, w := range line {
		if w != me {
			continue
		}
		line = append(line[:i:i], line[i+1:]...)
		if i == 0 && len(line) > 0 {
			close(line[0].turn)
		}
		break
	}
	if len(line) == 0 {
		delete(l.by, me.of)
		return
	}
	l.by[me.of] = line
}

// wake lets the first of every line of a resource look again. Which line a
// give-back helps is not known here: a parent pays for many entities.
func (l *lines) wake(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, line := range l.by {
		if of.resource != resource {
			continue
		}
		select {
		case line[0].wake <- struct{}{}:
		default:
		}
	}
}
