package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Flush stores the adjustments made so far and goes on, for work that streams.
// After an error they are not tried again. ErrLeaseDone.
func (l *Lease) Flush(ctx context.Context) error {
	if l == nil {
		return ErrLeaseDone
	}
	l.mu.Lock()
	lim := l.lim
	if lim == nil {
		l.mu.Unlock()
		return ErrLeaseDone
	}
	s := l.ship()
	l.mu.Unlock()

	stored, err := l.trySettle(ctx, lim, "flush", s.credits)
	l.mu.Lock()
	more := l.land(s, stored)
	l.mu.Unlock()
	if second := l.settle(ctx, lim, "flush", more); err == nil {
		return second
	}
	return err
}

// shipment is a settlement under way: what the lease adjusts, which part of it
// each entry pays, and the credits that store that.
type shipment struct {
	due     Amounts
	parts   []Amounts
	credits []Credit
}

// ship makes what is pending a shipment. Until the store says otherwise, what it
// gives back is gone and what it takes was not taken, so that a later give-back
// is never too much.
func (l *Lease) ship() shipment {
	due := l.due()
	if due.n == 0 {
		return shipment{}
	}
	l.book()
	s := shipment{due: due, parts: l.shares(due)}
	s.credits = l.credits(s.parts, false)
	l.pay(s.parts, Amounts.negative)
	l.pending = l.pending.plus(due.negated()).nonzero()
	l.adjusted = l.adjusted.plus(due.negative())
	l.sending = l.sending.plus(due.positive())
	return s
}

// due is the part of pending that can be settled: a give-back of what a Flush is
// about to take has to wait for that.
func (l *Lease) due() Amounts {
	if l.sequel == nil || l.pending.n == 0 {
		return Amounts{}
	}
	var due Amounts
	sure := l.sure()
	for limit, n := range l.pending.All() {
		if n = max(n, -sure.Get(limit)); n != 0 {
			due = due.And(limit, n)
		}
	}
	return due
}

// land books how a shipment ended. Its result is to be settled next, if the
// lease ended meanwhile: after a rollback what the shipment took, after a commit
// what waited for it.
func (l *Lease) land(s shipment, stored bool) []Credit {
	if s.due.n == 0 {
		return nil
	}
	l.sending = l.sending.plus(s.due.positive().negated())
	if stored {
		l.pay(s.parts, Amounts.positive)
		l.adjusted = l.adjusted.plus(s.due.positive())
	} else {
		l.forfeit()
	}
	switch {
	case l.rolledBack:
		return l.undo()
	case l.lim == nil:
		return l.ship().credits // nothing but give-backs can be left
	}
	return nil
}

// forfeit reduces what is pending to what the lease still holds, after a Flush
// whose takes are not sure to be stored.
func (l *Lease) forfeit() {
	held := l.sure().plus(l.sending)
	pending := l.pending
	for limit, n := range pending.All() {
		if over := bucket.Add(held.Get(limit), n); over < 0 {
			l.pending = l.pending.And(limit, -over)
		}
	}
	l.pending = l.pending.nonzero()
}

// Commit stores the adjustments and ends the lease; without any it does no I/O.
// The lease has ended even if Commit fails, since nothing may be credited
// twice, and Rollback then does nothing: work that was done is not refunded. It
// does not stop when ctx is cancelled. ErrLeaseDone; *UnavailableError.
func (l *Lease) Commit(ctx context.Context) error {
	lim, credits := l.end((*Lease).corrections)
	if lim == nil {
		return ErrLeaseDone
	}
	return l.settle(ctx, lim, "commit", credits)
}

// corrections are the credits that store what is pending. The lease has ended,
// so that it counts as stored whatever becomes of them.
func (l *Lease) corrections() []Credit {
	s := l.ship()
	l.land(s, true)
	return s.credits
}

// Rollback gives back everything the lease took and ends it. It does nothing
// once the lease has ended, so it is always safe to defer, and does not stop
// when ctx is cancelled. *UnavailableError.
func (l *Lease) Rollback(ctx context.Context) error {
	lim, credits := l.end((*Lease).refunds)
	if lim == nil {
		return nil
	}
	return l.settle(ctx, lim, "rollback", credits)
}

// refunds are the credits that give everything back.
func (l *Lease) refunds() []Credit {
	l.rolledBack = true
	l.book()
	return l.undo()
}

// end is the one end of a lease: the limiter to settle with, nil if it has
// ended before, and the credits that settle it.
func (l *Lease) end(credits func(*Lease) []Credit) (*RateLimiter, []Credit) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lim := l.lim
	if lim == nil {
		return nil, nil
	}
	l.lim = nil
	return lim, credits(l)
}

// settle sends credits, on its own time.
func (l *Lease) settle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) error {
	_, err := l.trySettle(ctx, lim, op, credits)
	return err
}

// trySettle is settle that also reports whether the credits are sure to be
// stored: under Allow an outage is no error, but stored they are not.
func (l *Lease) trySettle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) (stored bool, err error) {
	if len(credits) == 0 {
		return true, nil
	}
	ctx, cancel := lim.settleContext(ctx)
	defer cancel()
	err = lim.repo.Credit(ctx, lim.now(), credits...)
	if err == nil {
		lim.lines.credited(spaceOf(lim.repo, ""), credits, time.Now())
		return true, nil
	}
	return false, l.forgive(lim, failure(ctx, op, l.self.Account.Entity, l.self.Account.Resource, err))
}

// forgive remembers an outage that Allow passes over and is nil then.
func (l *Lease) forgive(lim *RateLimiter, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isType[*UnavailableError](err) || lim.outageMode(l.sofar().mode) != Allow {
		return err
	}
	if more := l.amend(); more.outage == nil {
		more.outage = err
	}
	return nil
}
