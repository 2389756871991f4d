package limiter

import (
	"context"
	"sync"
)

// Lease holds the amounts that Acquire took. Used, or Adjust and Release, correct
// them locally when the real amounts are known. Commit stores the corrections,
// and Rollback gives everything back. A lease ends once, with the first Commit or
// Rollback. An abandoned lease stays charged, and the refill makes up for it. A
// nil or zero Lease has ended. All methods are safe for concurrent use.
//
// No account gets back more than it paid under the lease, even if the entity, its
// parent, its limits or its buckets changed in between. A bucket that was deleted
// and created again gets nothing. There is one exception, on DynamoDB, for a bucket
// that the Python library created and that no locked write of this library has
// reached. If another process deletes it and creates it again, the new bucket gets
// what the lease gives back, up to its capacity.
//
// Under [Allow], Commit, Rollback, Flush and Consume return no error in an outage;
// Outage returns it.
type Lease struct {
	mu         sync.Mutex
	lim        *RateLimiter // nil once ended
	rolledBack bool
	amounts    Amounts  // as acquired
	payers     []Bucket // after Acquire; none if an outage was allowed
	*extra              // nil for most leases, which keeps them small
}

// extra holds the fields that few leases need.
type extra struct {
	limits []Limit // Request.Limits
	mode   OnUnavailable
	changes
	outage error
}

// ensureExtra returns the extra fields for writing.
func (l *Lease) ensureExtra() *extra {
	if l.extra == nil {
		l.extra = new(extra)
	}
	return l.extra
}

// readExtra returns a copy of the extra fields.
func (l *Lease) readExtra() extra {
	if l.extra == nil {
		return extra{}
	}
	return *l.extra
}

// Adjust records that the work used amounts more than acquired, or fewer where an
// amount is negative. It is local until Commit or Flush, never refuses for lack of
// tokens, and may leave the bucket in debt.
//
// Adjust returns ErrLeaseDone if the lease has ended. It returns an *InvalidError
// and adjusts nothing if no account of the lease has the limit, if it would give
// back more than Consumed reports, or if the net adjustment of a limit exceeds
// 9,223,372,036,854 tokens.
func (l *Lease) Adjust(amounts Amounts) error {
	return l.whileOpen(func() error { return l.adjust(amounts) })
}

// Release records that the work used amounts fewer than acquired. It is Adjust
// with the opposite sign.
func (l *Lease) Release(amounts Amounts) error { return l.Adjust(amounts.negated()) }

// Used records that the work used n tokens of limit in total, so that Consumed
// reports n. It is Adjust by the difference and returns the same errors, and an
// *InvalidError if n is negative.
func (l *Lease) Used(limit string, n int64) error {
	return l.whileOpen(func() error { return l.setUsed(limit, n) })
}

// whileOpen calls change under the lock, unless the lease has ended.
func (l *Lease) whileOpen(change func() error) error {
	if l == nil {
		return ErrLeaseDone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lim == nil {
		return ErrLeaseDone
	}
	return change()
}

// Consume takes more tokens from the store now and adds them to the lease. If a
// limit does not cover its amount, Consume returns an *ExceededError and leaves
// the lease unchanged. The other errors are the same as for Acquire, and
// ErrLeaseDone if the lease has ended.
func (l *Lease) Consume(ctx context.Context, amounts Amounts) error {
	lim, charge, err := l.consumeCharge(ctx, amounts)
	if err != nil || lim == nil {
		return err
	}
	storeCtx, cancel := lim.withTimeout(ctx)
	defer cancel()

	out, err := lim.repo.Consume(storeCtx, lim.now(), charge)
	if err != nil {
		return l.consumeError(ctx, lim, &charge, err)
	}

	if !out.Admitted {
		return &ExceededError{newDecision(&charge, out)}
	}
	return l.addConsumed(ctx, lim, amounts, out)
}

// consumeError returns the error of Consume. Under Allow an outage is none, unless
// a level is off.
func (l *Lease) consumeError(ctx context.Context, lim *RateLimiter, charge *Charge, err error) error {
	err = translateError(ctx, "consume", charge.Entity, charge.Resource, err)
	// An outage admits no call of a level that was off when the store last read
	// it.
	if isType[*UnavailableError](err) && lim.outageMode(l.requestedMode()) == Allow {
		if off := lim.repo.LastSwitch(charge.Entity, charge.Resource); off != nil {
			return off.Refuse(charge.Entity, charge.Resource)
		}
	}
	return l.allowOutage(lim, err)
}

// requestedMode returns Request.OnUnavailable. Another call may create extra meanwhile.
func (l *Lease) requestedMode() OnUnavailable {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readExtra().mode
}

// consumeCharge returns the charge for Consume, or a nil limiter if the lease
// records nothing.
func (l *Lease) consumeCharge(ctx context.Context, amounts Amounts) (*RateLimiter, Charge, error) {
	if l == nil {
		return nil, Charge{}, ErrLeaseDone
	}
	if err := ctx.Err(); err != nil {
		return nil, Charge{}, err
	}

	if err := validCharge(&amounts); err != nil {
		return nil, Charge{}, err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lim == nil {
		return nil, Charge{}, ErrLeaseDone
	}

	// Acquire allowed an outage, so the store has no charge to add to.
	if len(l.payers) == 0 {
		return nil, Charge{}, nil
	}

	self := l.payers[0].Account
	return l.lim, Charge{
		Entity: self.Entity, Resource: self.Resource, Amounts: amounts, Limits: l.readExtra().limits,
		Defaults: l.lim.defaults,
	}, nil
}

// addConsumed adds the charge of Consume to the changes of the lease, or gives it
// back if the lease has ended in between.
func (l *Lease) addConsumed(ctx context.Context, lim *RateLimiter, amounts Amounts, out Outcome) error {
	// The lease may have ended while the store charged.
	l.mu.Lock()
	ended := l.lim == nil
	if !ended {
		l.initEntries()
		l.recordConsume(amounts, out.Payers)
	}
	l.mu.Unlock()

	if !ended {
		return nil
	}

	// What Consume took belongs to no lease, so it goes back at once.
	var lost changes
	lost.recordConsume(amounts, out.Payers)
	return joinErrors(ErrLeaseDone, l.settle(ctx, lim, "consume", lost.undo()))
}

// Consumed returns the net amount of every limit, including adjustments. An
// amount that several payers paid counts once. A Flush with an
// unknown outcome counts as having given back, and not as having taken. Consumed
// is empty after a rollback and if Acquire allowed an outage.
func (l *Lease) Consumed() Amounts {
	if l == nil {
		return Amounts{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held()
}

// Decision returns the status of every limit after Acquire, for response headers.
func (l *Lease) Decision() Decision {
	if l == nil {
		return Decision{}
	}
	// Other calls may create extra. The fields that are read below never change
	// after Acquire.
	l.mu.Lock()
	limits := l.readExtra().limits
	l.mu.Unlock()
	return newDecision(&Charge{Amounts: l.amounts, Limits: limits}, Outcome{Admitted: true, Payers: l.payers})
}

// Outage returns the first *UnavailableError that [Allow] suppressed, or nil if
// the store recorded everything.
func (l *Lease) Outage() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readExtra().outage
}
