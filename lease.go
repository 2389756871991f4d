package limiter

import (
	"context"
	"sync"
)

// Lease is what Acquire took. Adjust and Release correct it locally once the
// real amounts are known; Commit stores the corrections, Rollback gives
// everything back. A lease ends exactly once, with the first Commit or Rollback;
// one that is abandoned stays charged and heals by refill. A nil or zero Lease
// has ended. All methods are safe for concurrent use.
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
	limits  []Limit // the override
	mode    OnUnavailable
	pending Amounts // adjusted, not yet stored
	entries []entry // what is stored; nil while that is what was acquired
	outage  error
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
// amount is negative. It is local until Commit or Flush, never refuses, and may
// leave the bucket in debt. ErrLeaseDone; *InvalidError for a limit that no
// account of the lease has.
func (l *Lease) Adjust(amounts Amounts) error {
	if l == nil {
		return ErrLeaseDone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lim == nil {
		return ErrLeaseDone
	}
	if l.self.Account == nil {
		return nil // nothing is recorded, so there is nothing to correct
	}
	for limit := range amounts.All() {
		if !l.knows(limit) {
			return invalid("limit", limit, "is no limit of the accounts of this lease")
		}
	}
	more := l.amend()
	more.pending = more.pending.plus(amounts)
	return nil
}

// Release says that amounts fewer were used than acquired: Adjust with the
// opposite sign.
func (l *Lease) Release(amounts Amounts) error { return l.Adjust(amounts.negated()) }

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
		for _, b := range out.charged() {
			l.add(b.Account, amounts.of(b.Account.Limits))
		}
	}
	l.mu.Unlock()
	if !ended {
		return nil
	}
	var credits []Credit
	for _, e := range entriesOf(amounts, out.charged()) {
		credits = append(credits, e.refund(e.stored)...)
	}
	return joined(ErrLeaseDone, l.settle(ctx, lim, "consume", credits))
}

// knows tells whether some account of the lease has the limit.
func (l *Lease) knows(limit string) bool {
	for _, b := range l.buckets() {
		if hasLimit(b.Account.Limits, limit) {
			return true
		}
	}
	for _, e := range l.sofar().entries {
		if hasLimit(e.account.Limits, limit) {
			return true
		}
	}
	return false
}

// Consumed is the net amount of every limit, adjustments included, as charged
// to the entity of the request. Nothing is charged under an allowed outage.
func (l *Lease) Consumed() Amounts {
	if l == nil {
		return Amounts{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	self, more := l.self.Account, l.sofar()
	if self == nil {
		return Amounts{}
	}
	if more.entries == nil {
		return l.amounts.plus(more.pending).of(self.Limits)
	}
	var net Amounts
	for _, e := range more.entries {
		if e.account.Entity != self.Entity {
			continue
		}
		net = net.plus(e.stored)
		if !e.past {
			net = net.plus(more.pending.of(e.account.Limits))
		}
	}
	return net
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
