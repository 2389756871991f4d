package limiter

import (
	"fmt"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// maxAdjusted is the largest net amount by which one lease adjusts a limit
// upwards. Stores count thousandths in an int64, so even the debt of a thousand
// such leases does not overflow, and the ledger agrees with the store.
const maxAdjusted = bucket.MaxTokens / 1000

// ledger records the changes of a lease after its acquire. It keeps the net
// amounts of the lease apart from the entries of its accounts, because an account
// may have paid less, such as a parent that was created later.
type ledger struct {
	taken    Amounts // by Consume
	adjusted Amounts // by settlements that are known to be stored
	sending  Amounts // taken by a Flush in progress
	pending  Amounts // adjusted, not yet sent
	entries  []entry // nil while each account has paid the acquired amounts
}

// entry is the net amount that one account is known to have paid. It is never
// negative.
type entry struct {
	account *Account
	stored  Amounts
	past    bool // another bucket or parent has replaced the account, so it pays no more
}

// held returns the net amounts of the lease, which bound what it can give back.
func (l *Lease) held() Amounts {
	if l.rolledBack || l.self.Account == nil {
		return Amounts{}
	}
	x := l.readExtra()
	return l.confirmed().plus(x.sending).plus(x.pending)
}

// confirmed returns the part of held that is known to be stored.
func (l *Lease) confirmed() Amounts {
	x := l.readExtra()
	return l.amounts.plus(x.taken).plus(x.adjusted)
}

// adjust adds all amounts to pending, or none.
func (l *Lease) adjust(amounts Amounts) error {
	if l.self.Account == nil {
		return nil // an outage was allowed: the store has recorded nothing
	}
	held := l.held()
	for limit, n := range amounts.All() {
		if !l.hasLimit(limit) {
			return invalid("limit", limit, "is not a limit of this lease")
		}
		value := limit + "=" + strconv.FormatInt(n, 10)
		if have := held.Get(limit); n < 0 && bucket.Add(have, n) < 0 {
			return invalid("adjust", value, fmt.Sprintf("gives back more than the lease holds; at most %d can be given back", have))
		}
		if room := l.adjustable(limit); n > room {
			return invalid("adjust", value, fmt.Sprintf("is more than a lease can adjust; at most %d can be added", room))
		}
	}
	if amounts = amounts.nonzero(); amounts.n > 0 {
		x := l.ensureExtra()
		x.pending = x.pending.plus(amounts)
	}
	return nil
}

// setUsed adjusts limit so that the lease holds n of it.
func (l *Lease) setUsed(limit string, n int64) error {
	if n < 0 {
		return invalid("used", limit+"="+strconv.FormatInt(n, 10), "must not be negative; 0 means that nothing was used")
	}
	held := l.held().Get(limit)
	if highest := bucket.Add(held, l.adjustable(limit)); n > held && n > highest {
		return invalid("used", limit+"="+strconv.FormatInt(n, 10), fmt.Sprintf("is more than a lease can hold; at most %d can be used", highest))
	}
	return l.adjust(Tokens(limit, n-held))
}

// adjustable returns how much more limit can be adjusted upwards.
func (l *Lease) adjustable(limit string) int64 {
	x := l.readExtra()
	return maxAdjusted - x.adjusted.plus(x.sending).plus(x.pending).Get(limit)
}

// hasLimit reports whether an account of the lease has the limit.
func (l *Lease) hasLimit(limit string) bool {
	for _, b := range l.buckets() {
		if hasLimit(b.Account.Limits, limit) {
			return true
		}
	}
	for _, e := range l.readExtra().entries {
		if hasLimit(e.account.Limits, limit) {
			return true
		}
	}
	return false
}

// initEntries creates the entries of the acquire if there are none.
func (l *Lease) initEntries() {
	x := l.ensureExtra()
	if x.entries != nil {
		return
	}
	for _, b := range l.buckets() {
		x.entries = append(x.entries, entry{account: b.Account, stored: l.amounts.forLimits(b.Account.Limits)})
	}
}

// recordConsume records the amounts that Consume took from buckets. Only these
// buckets pay from now on.
func (g *ledger) recordConsume(amounts Amounts, buckets []Bucket) {
	for i := range g.entries {
		g.entries[i].past = true
	}
	for _, b := range buckets {
		g.record(b.Account, amounts.forLimits(b.Account.Limits))
	}
	g.taken = g.taken.plus(amounts)
}

// record adds amounts to the entry of an account and updates its description. It
// drops the amounts of limits that the account has lost, since such a limit
// starts full if it returns.
func (g *ledger) record(account *Account, amounts Amounts) {
	for i := range g.entries {
		e := &g.entries[i]
		if e.account.Entity == account.Entity && e.account.Resource == account.Resource && e.account.Ref == account.Ref {
			e.account, e.past = account, false
			e.stored = e.stored.forLimits(account.Limits).plus(amounts)
			return
		}
	}
	g.entries = append(g.entries, entry{account: account, stored: amounts})
}

// split divides due among the entries, by index. Every current account with the
// limit pays a positive amount. A negative amount goes back to the accounts that
// paid, at most as much as each paid: first to the current account, then to past
// ones, latest first. The entity and its parents are handled separately.
func (l *Lease) split(due Amounts) []Amounts {
	parts := make([]Amounts, len(l.entries))
	for limit, n := range due.All() {
		var given [2]int64
		for _, i := range l.payOrder() {
			e := &l.entries[i]
			if n > 0 {
				if !e.past && hasLimit(e.account.Limits, limit) {
					parts[i] = parts[i].And(limit, n)
				}
				continue
			}
			role := 0
			if e.account.Entity != l.self.Account.Entity {
				role = 1
			}
			if back := min(-n-given[role], e.stored.Get(limit)); back > 0 {
				given[role] += back
				parts[i] = parts[i].And(limit, -back)
			}
		}
	}
	return parts
}

// payOrder returns the indices of the entries: current accounts first, then past
// ones, latest first.
func (g *ledger) payOrder() []int {
	var current, past []int
	for i := range g.entries {
		if last := len(g.entries) - 1 - i; g.entries[last].past {
			past = append(past, last)
		}
		if !g.entries[i].past {
			current = append(current, i)
		}
	}
	return append(current, past...)
}

// credits returns the credits that make each entry pay its part.
func (g *ledger) credits(parts []Amounts, undo bool) (all []Credit) {
	for i, part := range parts {
		if part = part.nonzero(); part.n > 0 {
			all = append(all, Credit{Account: g.entries[i].account, Amounts: part.negated(), Undo: undo})
		}
	}
	return all
}

// undo clears the entries and returns the credits that give back all they paid.
func (g *ledger) undo() []Credit {
	parts := make([]Amounts, len(g.entries))
	for i := range g.entries {
		e := &g.entries[i]
		parts[i], e.stored = e.stored.negated(), Amounts{}
	}
	return g.credits(parts, true)
}

// recordPaid adds the parts with one sign to the entries, as far as their
// accounts have the limits.
func (g *ledger) recordPaid(parts []Amounts, sign func(Amounts) Amounts) {
	for i, part := range parts {
		e := &g.entries[i]
		e.stored = e.stored.plus(sign(part).forLimits(e.account.Limits))
	}
}
