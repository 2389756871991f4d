package limiter

import (
	"fmt"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// maxAdjusted bounds the net amount of a limit that one lease adjusts upwards.
// A store counts thousandths in an int64: even the debt of a thousand such
// leases fits, so that what is booked here is what was stored.
const maxAdjusted = bucket.MaxTokens / 1000

// ledger is what became of a lease after its acquire. Net amounts of the lease
// stand beside the entries of its accounts, which may have paid less: a parent
// that came late, say.
type ledger struct {
	taken    Amounts // by Consume
	adjusted Amounts // by settlements, as far as they are sure to be stored
	sending  Amounts // what a Flush under way takes
	pending  Amounts // adjusted, not yet sent
	entries  []entry // nil while accounts have paid what was acquired
}

// entry is what one account paid, net, as far as it is sure to be stored; it is
// never negative. Past marks an account that pays no more: another bucket or
// parent took its place.
type entry struct {
	account *Account
	stored  Amounts
	past    bool
}

// held is what the lease holds: the most that can be given back.
func (l *Lease) held() Amounts {
	if l.rolledBack || l.self.Account == nil {
		return Amounts{}
	}
	more := l.sofar()
	return l.sure().plus(more.sending).plus(more.pending)
}

// sure is the part of held that is stored.
func (l *Lease) sure() Amounts {
	more := l.sofar()
	return l.amounts.plus(more.taken).plus(more.adjusted)
}

// adjust adds amounts to what is pending, all or none.
func (l *Lease) adjust(amounts Amounts) error {
	if l.self.Account == nil {
		return nil // nothing is recorded, so there is nothing to correct
	}
	held := l.held()
	for limit, n := range amounts.All() {
		if !l.knows(limit) {
			return invalid("limit", limit, "is no limit of the accounts of this lease")
		}
		value := limit + "=" + strconv.FormatInt(n, 10)
		if have := held.Get(limit); n < 0 && bucket.Add(have, n) < 0 {
			return invalid("adjust", value, fmt.Sprintf("gives back more than the lease holds; at most %d can be given back", have))
		}
		if room := l.room(limit); n > room {
			return invalid("adjust", value, fmt.Sprintf("is more than a lease can adjust; at most %d can be added", room))
		}
	}
	if amounts = amounts.nonzero(); amounts.n > 0 {
		more := l.amend()
		more.pending = more.pending.plus(amounts)
	}
	return nil
}

// use adjusts limit so that the lease holds n of it.
func (l *Lease) use(limit string, n int64) error {
	if n < 0 {
		return invalid("used", limit+"="+strconv.FormatInt(n, 10), "must not be negative; 0 says that nothing was used")
	}
	held := l.held().Get(limit)
	if most := bucket.Add(held, l.room(limit)); n > held && n > most {
		return invalid("used", limit+"="+strconv.FormatInt(n, 10), fmt.Sprintf("is more than a lease can hold; at most %d can be used", most))
	}
	return l.adjust(Tokens(limit, n-held))
}

// room is how much more of limit can be adjusted upwards.
func (l *Lease) room(limit string) int64 {
	more := l.sofar()
	return maxAdjusted - more.adjusted.plus(more.sending).plus(more.pending).Get(limit)
}

// knows reports whether some account of the lease has the limit.
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

// take books what Consume took from buckets. They are the ones that pay from
// now on.
func (g *ledger) take(amounts Amounts, from []Bucket) {
	for i := range g.entries {
		g.entries[i].past = true
	}
	for _, b := range from {
		g.add(b.Account, amounts.of(b.Account.Limits))
	}
	g.taken = g.taken.plus(amounts)
}

// add books amounts to an account, as the store last described it. What a limit
// paid that has left the account is gone: if it comes back it begins full.
func (g *ledger) add(account *Account, amounts Amounts) {
	for i := range g.entries {
		e := &g.entries[i]
		if e.account.Entity == account.Entity && e.account.Resource == account.Resource && e.account.Ref == account.Ref {
			e.account, e.past = account, false
			e.stored = e.stored.of(account.Limits).plus(amounts)
			return
		}
	}
	g.entries = append(g.entries, entry{account: account, stored: amounts})
}

// shares splits due among the entries, by index. What is taken falls to every
// present account that has the limit. What is given back goes to the accounts
// that paid it, to none more than it paid: for the entity and for its parents
// by itself, first to the present account, then to past ones, the latest first.
func (l *Lease) shares(due Amounts) []Amounts {
	parts := make([]Amounts, len(l.entries))
	for limit, n := range due.All() {
		var given [2]int64
		for _, i := range l.payees() {
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

// payees are the indices of entries, those of present accounts first, then the
// others, the latest first.
func (g *ledger) payees() []int {
	var present, past []int
	for i := range g.entries {
		if last := len(g.entries) - 1 - i; g.entries[last].past {
			past = append(past, last)
		}
		if !g.entries[i].past {
			present = append(present, i)
		}
	}
	return append(present, past...)
}

// credits store what each entry has to pay.
func (g *ledger) credits(parts []Amounts, undo bool) (all []Credit) {
	for i, part := range parts {
		if part = part.nonzero(); part.n > 0 {
			all = append(all, Credit{Account: g.entries[i].account, Amounts: part.negated(), Undo: undo})
		}
	}
	return all
}

// undo makes the credits that give back all that entries paid.
func (g *ledger) undo() []Credit {
	parts := make([]Amounts, len(g.entries))
	for i := range g.entries {
		e := &g.entries[i]
		parts[i], e.stored = e.stored.negated(), Amounts{}
	}
	return g.credits(parts, true)
}

// pay adds one sign of what entries pay to what they are known to have paid, as
// far as they still have the limits.
func (g *ledger) pay(parts []Amounts, sign func(Amounts) Amounts) {
	for i, part := range parts {
		e := &g.entries[i]
		e.stored = e.stored.plus(sign(part).of(e.account.Limits))
	}
}
