package limiter

import (
	"context"
	"sync"
)

// Lease is what Acquire took. Used, or Adjust and Release, correct it locally
// once the real amounts are known; Commit stores the corrections, Rollback gives
// everything back. A lease ends exactly once, with the first Commit or Rollback;
// one that is abandoned stays charged and heals by refill. A nil or zero Lease
// has ended. All methods are safe for concurrent use.
//
// No account ever gets back more than it paid under the lease, whatever became
// of entity, parent, limits or buckets meanwhile.
//
// Under Allow a settlement that meets an outage shows in Outage instead of as
// an error.
type Lease struct {
	mu           sync.Mutex
	lim          *RateLimiter // nil once ended
	rolledBack   bool
	amounts      Amounts // as acquired
	self, parent Bucket  // as Acquire left them; no accounts if an outage was allowed
	*sequel              // what few leases have; nil keeps the others small
}

// sequel is what a request says beside its amounts, and what happens to the
// lease later.
type sequel struct {
	limits []Limit // the override
	mode   OnUnavailable
	ledger
	outage error
}

// amend is the sequel, to be written.
func (l *Lease) amend() *sequel {
	if l.sequel == nil {
		l.sequel = new(sequel)
	}
	return l.sequel
}

// sofar is the sequel, to be read.
func (l *Lease) sofar() sequel {
	if l.sequel == nil {
		return sequel{}
	}
	return *l.sequel
}

// buckets are those that Acquire charged.
func (l *Lease) buckets() []Bucket {
	return Outcome{Self: l.self, Parent: l.parent}.charged()
}

// charged are the buckets that have an account.
func (o Outcome) charged() []Bucket {
	switch {
	case o.Self.Account == nil:
		return nil
	case o.Parent.Account == nil:
		return []Bucket{o.Self}
	}
	return []Bucket{o.Self, o.Parent}
}

// Adjust says that amounts more were used than acquired, or fewer where an
// amount is negative. It is local until Commit or Flush and may leave the bucket
// in debt. ErrLeaseDone; *InvalidError, and nothing is adjusted, for a limit
// that no account of the lease has, for giving back more than Consumed reports,
// and beyond a net 9,223,372,036,854 tokens more than were acquired and
// consumed.
func (l *Lease) Adjust(amounts Amounts) error {
	return l.correct(func() error { return l.adjust(amounts) })
}

// Release says that amounts fewer were used than acquired: Adjust with the
// opposite sign.
func (l *Lease) Release(amounts Amounts) error { return l.Adjust(amounts.negated()) }

// Used says that n tokens of limit were used in all, so that Consumed reports n,
// whatever was acquired, consumed or adjusted before. It is Adjust by the
// difference, with its errors, and *InvalidError for a negative n.
func (l *Lease) Used(limit string, n int64) error {
	return l.correct(func() error { return l.use(limit, n) })
}

// correct calls change unless the lease has ended.
func (l *Lease) correct(change func() error) error {
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

// Consume takes more now, or returns *ExceededError and leaves the lease as it
// was. What it takes joins the lease. It is a conditional debit in the store,
// with the errors of Acquire, and ErrLeaseDone.
func (l *Lease) Consume(ctx context.Context, amounts Amounts) error {
	lim, charge, err := l.forConsume(ctx, amounts)
	if err != nil || lim == nil {
		return err
	}
	inTime, cancel := lim.limited(ctx)
	defer cancel()
	out, err := lim.repo.Consume(inTime, lim.now(), charge)
	if err != nil {
		return l.forgive(lim, failure(ctx, "consume", charge.Entity, charge.Resource, err))
	}
	if !out.Admitted {
		return &ExceededError{decide(&charge, out)}
	}
	return l.join(ctx, lim, amounts, out)
}

// forConsume is the charge to make, or a nil limiter if the lease records
// nothing.
func (l *Lease) forConsume(ctx context.Context, amounts Amounts) (*RateLimiter, Charge, error) {
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
	self := l.self.Account
	if self == nil {
		return nil, Charge{}, nil
	}
	return l.lim, Charge{Entity: self.Entity, Resource: self.Resource, Amounts: amounts, Limits: l.sofar().limits, Defaults: l.lim.defaults}, nil
}

// join books what Consume took, or gives it back if the lease ended meanwhile.
func (l *Lease) join(ctx context.Context, lim *RateLimiter, amounts Amounts, out Outcome) error {
	l.mu.Lock()
	ended := l.lim == nil
	if !ended {
		l.book()
		l.take(amounts, out.charged())
	}
	l.mu.Unlock()
	if !ended {
		return nil
	}
	var lost ledger
	lost.take(amounts, out.charged())
	return joined(ErrLeaseDone, l.settle(ctx, lim, "consume", lost.undo()))
}

// Consumed is the net amount of every limit, adjustments included. It counts
// once what the entity and its parent both paid. A Flush of unknown outcome
// counts as having given back, and not as having taken. Nothing is charged
// under an allowed outage, and nothing is left after a rollback.
func (l *Lease) Consumed() Amounts {
	if l == nil {
		return Amounts{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held()
}

// Decision is what Acquire left of every limit, for response headers.
func (l *Lease) Decision() Decision {
	if l == nil {
		return Decision{}
	}
	l.mu.Lock()
	limits := l.sofar().limits
	l.mu.Unlock()
	return decide(&Charge{Amounts: l.amounts, Limits: limits}, Outcome{Admitted: true, Self: l.self, Parent: l.parent})
}

// Outage is the *UnavailableError that Allow passed over when acquiring or
// settling; nil means that everything is recorded.
func (l *Lease) Outage() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sofar().outage
}
