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
	mu      sync.Mutex
	lim     *RateLimiter // nil once ended
	charge  Charge       // as acquired
	mode    OnUnavailable
	outcome Outcome // of Acquire; no accounts if an outage was allowed
	pending Amounts // adjusted, not yet stored
	entries []entry // what is stored; nil while that is charge, to outcome
	outage  error
}

// entry is what one account was charged, net, as far as it is sure to be
// stored. Past marks a bucket that another has taken the place of.
type entry struct {
	account *Account
	stored  Amounts
	past    bool
}

// credit is amounts of this account's limits, nil if there are none.
func (e *entry) credit(amounts Amounts) []Credit {
	due := amounts.of(e.account.Limits).where(func(_ string, n int64) bool { return n != 0 })
	if due.n == 0 {
		return nil
	}
	return []Credit{{e.account, due}}
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
	if l.outcome.Self.Account == nil {
		return nil // nothing is recorded, so there is nothing to correct
	}
	for limit := range amounts.All() {
		if !l.knows(limit) {
			return invalid("limit", limit, "is no limit of the accounts of this lease")
		}
	}
	l.pending = l.pending.plus(amounts)
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
	out, err := lim.consume(ctx, &charge)
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
	if l.outcome.Self.Account == nil {
		return nil, Charge{}, nil
	}
	charge := l.charge
	charge.Amounts = amounts
	return l.lim, charge, nil
}

// join books what Consume took, or gives it back if the lease ended meanwhile.
func (l *Lease) join(ctx context.Context, lim *RateLimiter, amounts Amounts, out Outcome) error {
	l.mu.Lock()
	ended := l.lim == nil
	if !ended {
		l.book()
		for _, b := range []Bucket{out.Self, out.Parent} {
			if b.Account != nil {
				l.add(b.Account, amounts.of(b.Account.Limits))
			}
		}
	}
	l.mu.Unlock()
	if !ended {
		return nil
	}
	var credits []Credit
	for _, e := range entriesOf(amounts, out) {
		credits = append(credits, e.credit(e.stored)...)
	}
	return joined(ErrLeaseDone, l.settle(ctx, lim, "consume", credits))
}

// book makes entries say what is stored.
func (l *Lease) book() {
	if l.entries == nil {
		l.entries = entriesOf(l.charge.Amounts, l.outcome)
	}
}

func entriesOf(amounts Amounts, out Outcome) []entry {
	var entries []entry
	for _, b := range []Bucket{out.Self, out.Parent} {
		if b.Account != nil {
			entries = append(entries, entry{account: b.Account, stored: amounts.of(b.Account.Limits)})
		}
	}
	return entries
}

// add books amounts to an account, as the store last described it.
func (l *Lease) add(account *Account, amounts Amounts) {
	for i := range l.entries {
		e := &l.entries[i]
		if e.account.Entity != account.Entity || e.account.Resource != account.Resource {
			continue
		}
		if e.account.Ref == account.Ref {
			e.account, e.past = account, false
			e.stored = e.stored.plus(amounts)
			return
		}
		e.past = true
	}
	l.entries = append(l.entries, entry{account: account, stored: amounts})
}

// knows tells whether some account of the lease has the limit.
func (l *Lease) knows(limit string) bool {
	for _, b := range []Bucket{l.outcome.Self, l.outcome.Parent} {
		if b.Account != nil && hasLimit(b.Account.Limits, limit) {
			return true
		}
	}
	for _, e := range l.entries {
		if hasLimit(e.account.Limits, limit) {
			return true
		}
	}
	return false
}

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
	pending, credits := l.pending, l.corrections()
	l.pending = Amounts{}
	// Until the store says otherwise, what was given back is gone and what was
	// taken was not, so that a rollback never gives back too much.
	l.restate(pending.negative())
	l.mu.Unlock()

	stored, err := l.trySettle(ctx, lim, "flush", credits)
	if stored {
		l.mu.Lock()
		l.restate(pending.positive())
		l.mu.Unlock()
	}
	return err
}

// restate adds amounts to what the present accounts are known to have paid.
func (l *Lease) restate(amounts Amounts) {
	for i := range l.entries {
		if e := &l.entries[i]; !e.past {
			e.stored = e.stored.plus(amounts.of(e.account.Limits))
		}
	}
}

// corrections are the credits that store what is pending.
func (l *Lease) corrections() []Credit {
	if l.pending.n == 0 {
		return nil
	}
	l.book()
	var credits []Credit
	for _, e := range l.entries {
		if !e.past {
			credits = append(credits, e.credit(l.pending.negated())...)
		}
	}
	return credits
}

// Commit stores the adjustments and ends the lease; without any it does no I/O.
// The lease has ended even if Commit fails, since nothing may be credited
// twice, and Rollback then does nothing: work that was done is not refunded. It
// does not stop when ctx is cancelled. ErrLeaseDone; *UnavailableError.
func (l *Lease) Commit(ctx context.Context) error {
	if l == nil {
		return ErrLeaseDone
	}
	l.mu.Lock()
	lim := l.lim
	l.lim = nil
	var credits []Credit
	if lim != nil {
		credits = l.corrections()
	}
	l.mu.Unlock()
	if lim == nil {
		return ErrLeaseDone
	}
	return l.settle(ctx, lim, "commit", credits)
}

// Rollback gives back everything the lease took and ends it. It does nothing
// once the lease has ended, so it is always safe to defer, and does not stop
// when ctx is cancelled. *UnavailableError.
func (l *Lease) Rollback(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	lim := l.lim
	l.lim = nil
	var credits []Credit
	if lim != nil {
		l.book()
		for _, e := range l.entries {
			credits = append(credits, e.credit(e.stored)...)
		}
	}
	l.mu.Unlock()
	if lim == nil {
		return nil
	}
	return l.settle(ctx, lim, "rollback", credits)
}

// settle sends credits, on its own time.
func (l *Lease) settle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) error {
	_, err := l.trySettle(ctx, lim, op, credits)
	return err
}

// trySettle is settle that also tells whether the credits are sure to be
// stored: under Allow an outage is no error, but stored they are not.
func (l *Lease) trySettle(ctx context.Context, lim *RateLimiter, op string, credits []Credit) (stored bool, err error) {
	if len(credits) == 0 {
		return true, nil
	}
	ctx, cancel := lim.settleContext(ctx)
	defer cancel()
	err = lim.repo.Credit(ctx, lim.now(), credits...)
	if err == nil {
		lim.lines.wake(l.charge.Resource)
		return true, nil
	}
	return false, l.forgive(lim, failure(ctx, op, l.charge.Entity, l.charge.Resource, err))
}

// forgive remembers an outage that Allow passes over and is nil then.
func (l *Lease) forgive(lim *RateLimiter, err error) error {
	if !isType[*UnavailableError](err) || lim.outageMode(l.mode) != Allow {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outage == nil {
		l.outage = err
	}
	return nil
}

// Consumed is the net amount of every limit, adjustments included, as charged
// to the entity of the request. Nothing is charged under an allowed outage.
func (l *Lease) Consumed() Amounts {
	if l == nil {
		return Amounts{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	self := l.outcome.Self.Account
	if self == nil {
		return Amounts{}
	}
	var net Amounts
	if l.entries == nil {
		net = l.charge.Amounts.of(self.Limits)
	}
	for _, e := range l.entries {
		if e.account.Entity == self.Entity {
			net = net.plus(e.stored)
		}
	}
	return net.plus(l.pending.of(self.Limits))
}

// Decision is what Acquire left of every limit, for response headers.
func (l *Lease) Decision() Decision {
	if l == nil {
		return Decision{}
	}
	return decide(&l.charge, l.outcome) // both are written before the lease is shared
}

// Outage is the *UnavailableError that Allow passed over when acquiring or
// settling; nil means that everything is recorded.
func (l *Lease) Outage() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outage
}
