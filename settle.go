package limiter

import "context"

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
	parts := l.parts(pending)
	l.restate(parts, Amounts.negative)
	l.mu.Unlock()

	stored, err := l.trySettle(ctx, lim, "flush", credits)
	if !stored {
		return err
	}
	return l.settle(ctx, lim, "flush", l.flushed(parts))
}

// flushed books what a flush took, or is the credits that give it back, if the
// lease was rolled back meanwhile.
func (l *Lease) flushed(parts map[int]Amounts) (credits []Credit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rolledBack {
		l.restate(parts, Amounts.positive)
		return nil
	}
	for i, part := range parts {
		credits = append(credits, l.entries[i].refund(part.positive())...)
	}
	return credits
}

// parts are what each present account has to pay of amounts, by its index. The
// limits of an account may change while that is stored.
func (l *Lease) parts(amounts Amounts) map[int]Amounts {
	parts := map[int]Amounts{}
	for _, i := range l.present() {
		parts[i] = amounts.of(l.entries[i].account.Limits)
	}
	return parts
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

// restate adds one sign of what accounts pay to what they are known to have
// paid.
func (l *Lease) restate(parts map[int]Amounts, sign func(Amounts) Amounts) {
	for i, part := range parts {
		e := &l.entries[i]
		e.stored = e.stored.plus(sign(part))
	}
}

// corrections are the credits that store what is pending.
func (l *Lease) corrections() []Credit {
	if l.sequel == nil || l.pending.n == 0 {
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
	lim, credits := l.end((*Lease).corrections)
	if lim == nil {
		return ErrLeaseDone
	}
	return l.settle(ctx, lim, "commit", credits)
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

// refunds are the credits that give everything back.
func (l *Lease) refunds() (credits []Credit) {
	l.book()
	for i := range l.entries {
		e := &l.entries[i]
		credits = append(credits, e.refund(e.stored)...)
		e.stored = Amounts{}
	}
	l.pending, l.rolledBack = Amounts{}, true
	return credits
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
	return []Credit{{Account: e.account, Amounts: due}}
}

// refund is the credit that undoes amounts, nil if there are none.
func (e *entry) refund(amounts Amounts) []Credit {
	credits := e.credit(amounts)
	for i := range credits {
		credits[i].Undo = true
	}
	return credits
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
