package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Flush stores the adjustments made so far and keeps the lease open, for work that
// streams. It does not retry them after an error. It returns ErrLeaseDone if the
// lease has ended.
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

	// The lock is released while the store works, so that the lease can be
	// adjusted meanwhile.
	s := l.beginSettlement()
	l.mu.Unlock()

	stored, err := l.trySettle(ctx, lim, "flush", s.credits)

	l.mu.Lock()
	rest := l.finishSettlement(s, stored)
	l.mu.Unlock()

	// The lease may have ended meanwhile. The rest is sent even after an error.
	if second := l.settle(ctx, lim, "flush", rest); err == nil {
		return second
	}
	return err
}

// settlement is a set of adjustments on its way to the store.
type settlement struct {
	due     Amounts   // the net amounts of the lease
	parts   []Amounts // the part of each entry
	credits []Credit  // the credits that store the parts
	round   int       // that pays what is taken
}

// beginSettlement makes a settlement of the pending adjustments. Until the store
// confirms it, its give-backs count as stored and its takes do not, so that a
// later give-back is never too much.
func (l *Lease) beginSettlement() settlement {
	due := l.due()
	if due.n == 0 {
		return settlement{}
	}

	l.initEntries()
	s := settlement{due: due, parts: l.split(due)}
	s.credits = l.credits(s.parts, false)

	// What is given back is gone whatever the store answers, or it could be
	// given back twice.
	l.recordPaid(s.parts, Amounts.negative)
	s.round = len(l.rounds) - 1
	l.recordDue(due.negative(), s.round)
	l.pending = l.pending.plus(due.negated()).nonzero()
	l.adjusted = l.adjusted.plus(due.negative())
	// What is taken counts only once it is stored, or more could be given back
	// than was paid.
	l.sending = l.sending.plus(due.positive())
	return s
}

// due returns the part of pending that can be settled now. A give-back of tokens
// that a Flush in progress takes has to wait for that Flush.
func (l *Lease) due() Amounts {
	if l.extra == nil || l.pending.n == 0 {
		return Amounts{}
	}

	var due Amounts
	confirmed := l.confirmed()
	for limit, n := range l.pending.All() {
		// The tokens that a Flush is taking are not there to be given back yet.
		if n = max(n, -confirmed.Get(limit)); n != 0 {
			due = due.And(limit, n)
		}
	}
	return due
}

// finishSettlement records the result of a settlement. If the lease has ended in
// between, it returns the credits to send next: after a rollback they undo the
// settlement, and after a commit they store the adjustments that waited for it.
func (l *Lease) finishSettlement(s settlement, stored bool) []Credit {
	// Nothing was sent. What still waits is sent by the Flush that it waits for.
	if s.due.n == 0 {
		return nil
	}

	l.sending = l.sending.plus(s.due.positive().negated())
	// The takes are stored, so the accounts can get them back.
	if stored {
		l.recordPaid(s.parts, Amounts.positive)
		l.recordDue(s.due.positive(), s.round)
		l.adjusted = l.adjusted.plus(s.due.positive())
	} else {
		l.clampPending()
	}

	switch {
	case l.rolledBack:
		return l.undo()
	case l.lim == nil:
		// The commit has sent all but the give-backs that waited for a Flush.
		// They count as stored as soon as they are sent, so nothing is left to
		// finish.
		return l.beginSettlement().credits
	}
	return nil
}

// clampPending reduces pending give-backs to the amounts that the lease holds,
// after a Flush whose takes may not be stored.
func (l *Lease) clampPending() {
	// Another Flush may still be taking what it sends.
	held := l.confirmed().plus(l.sending)
	pending := l.pending
	for limit, n := range pending.All() {
		if over := bucket.Add(held.Get(limit), n); over < 0 {
			l.pending = l.pending.And(limit, -over)
		}
	}

	l.pending = l.pending.nonzero()
}

// Commit stores the adjustments and ends the lease. Without adjustments it does no
// I/O. A cancelled ctx does not stop it.
//
// Commit returns ErrLeaseDone if the lease has ended, and an *UnavailableError in
// an outage. The lease ends even then, since a retry could credit twice, and a
// later Rollback does nothing.
func (l *Lease) Commit(ctx context.Context) error {
	lim, credits := l.end((*Lease).commitCredits)
	if lim == nil {
		return ErrLeaseDone
	}
	return l.settle(ctx, lim, "commit", credits)
}

// commitCredits returns the credits that store the pending adjustments. They count
// as stored, since the lease has ended.
func (l *Lease) commitCredits() []Credit {
	s := l.beginSettlement()
	// This returns no credits: what is still pending waits for a Flush, which sends
	// it when it finishes.
	l.finishSettlement(s, true)
	return s.credits
}

// Rollback gives back everything that the lease took, and ends the lease. It does
// nothing if the lease has ended, so it is always safe to defer. A cancelled ctx
// does not stop it. It returns an *UnavailableError in an outage.
func (l *Lease) Rollback(ctx context.Context) error {
	lim, credits := l.end((*Lease).rollbackCredits)
	if lim == nil {
		return nil
	}
	return l.settle(ctx, lim, "rollback", credits)
}

// rollbackCredits returns the credits that give everything back.
func (l *Lease) rollbackCredits() []Credit {
	l.rolledBack = true
	l.initEntries()
	return l.undo()
}

// end ends the lease. It returns the limiter and the credits to settle with, or
// nil if the lease has ended before.
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

// settle sends credits within SettleTimeout. Its callers pass the limiter, since
// l.lim is nil once the lease has ended.
func (l *Lease) settle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) error {
	_, err := l.trySettle(ctx, lim, op, credits)
	return err
}

// trySettle sends credits and reports whether the store confirmed them. Under
// Allow an outage is not an error, but it is no confirmation either.
func (l *Lease) trySettle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) (stored bool, err error) {
	if len(credits) == 0 {
		return true, nil
	}

	ctx, cancel := lim.settleContext(ctx)
	defer cancel()
	err = lim.repo.Credit(ctx, lim.now(), credits...)
	if err == nil {
		// Waiters of this process may fit into what was given back. Wait sleeps in
		// real time, whatever Options.Now returns.
		lim.queues.credited(namespaceID(lim.repo, ""), credits, time.Now())
		return true, nil
	}

	self := l.payers[0].Account
	return false, l.allowOutage(lim, translateError(ctx, op, self.Entity, self.Resource, err))
}

// allowOutage keeps err for Outage and returns nil if err is an outage and the mode
// is Allow. Otherwise it returns err.
func (l *Lease) allowOutage(lim *RateLimiter, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !isType[*UnavailableError](err) || lim.outageMode(l.readExtra().mode) != Allow {
		return err
	}
	// Outage reports the first one.
	if x := l.ensureExtra(); x.outage == nil {
		x.outage = err
	}
	return nil
}
