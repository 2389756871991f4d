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
	amounts      Amounts      // as acquired
	limits       []Limit      // of the request, if it had any
	mode         OnUnavailable
	self, parent Bucket // as Acquire left them; no accounts if an outage was allowed
	*sequel             // what came after Acquire; nil for nothing, which keeps most leases small
}

// sequel is what happened to a lease after it was acquired.
type sequel struct {
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
	self := l.self.Account
	if self == nil {
		return nil, Charge{}, nil
	}
	return l.lim, Charge{Entity: self.Entity, Resource: self.Resource, Amounts: amounts, Limits: l.limits}, nil
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
		credits = append(credits, e.credit(e.stored)...)
	}
	return joined(ErrLeaseDone, l.settle(ctx, lim, "consume", credits))
}

// book makes entries say what is stored.
func (l *Lease) book() {
	if more := l.amend(); more.entries == nil {
		more.entries = entriesOf(l.amounts, l.buckets())
	}
}

func entriesOf(amounts Amounts, buckets []Bucket) []entry {
	var entries []entry
	for _, b := range buckets {
		entries = append(entries, entry{account: b.Account, stored: amounts.of(b.Account.Limits)})
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
	pending, credits := l.sofar().pending, l.corrections()
	if credits == nil {
		l.mu.Unlock()
		return nil
	}
	l.pending = Amounts{}
	// Until the store says otherwise, what was given back is gone and what was
	// taken was not, so that a rollback never gives back too much.
	present := l.present()
	l.restate(present, pending.negative())
	l.mu.Unlock()

	stored, err := l.trySettle(ctx, lim, "flush", credits)
	if stored {
		l.mu.Lock()
		l.restate(present, pending.positive())
		l.mu.Unlock()
	}
	return err
}

// present are the indices of the entries whose bucket nothing took the place of.
func (l *Lease) present() (indices []int) {
	for i := range l.entries {
		if !l.entries[i].past {
			indices = append(indices, i)
		}
	}
	return indices
}

// restate adds amounts to what some accounts are known to have paid.
func (l *Lease) restate(indices []int, amounts Amounts) {
	for _, i := range indices {
		e := &l.entries[i]
		e.stored = e.stored.plus(amounts.of(e.account.Limits))
	}
}

// corrections are the credits that store what is pending.
func (l *Lease) corrections() []Credit {
	if l.sofar().pending.n == 0 {
		return nil
	}
	l.book()
	var credits []Credit
	for _, i := range l.present() {
		credits = append(credits, l.entries[i].credit(l.pending.negated())...)
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
		lim.lines.wake(l.self.Account.Resource)
		return true, nil
	}
	return false, l.forgive(lim, failure(ctx, op, l.self.Account.Entity, l.self.Account.Resource, err))
}

// forgive remembers an outage that Allow passes over and is nil then.
func (l *Lease) forgive(lim *RateLimiter, err error) error {
	if !isType[*UnavailableError](err) || lim.outageMode(l.mode) != Allow {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if more := l.amend(); more.outage == nil {
		more.outage = err
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
	// What it reads is written before the lease is shared.
	return decide(&Charge{Amounts: l.amounts, Limits: l.limits}, Outcome{Admitted: true, Self: l.self, Parent: l.parent})
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
