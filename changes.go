package limiter

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// maxAdjusted is the largest net amount by which one lease adjusts a limit
// upwards. Stores count thousandths in an int64, so even the debt of a thousand
// such leases does not overflow, and the lease agrees with the store.
const maxAdjusted = bucket.MaxTokens / 1000

// changes records what a lease changed after its acquire. It keeps the net
// amounts of the lease apart from the entries of its accounts, because an account
// may have paid less, such as a parent that was created later.
type changes struct {
	taken    Amounts // by Consume
	adjusted Amounts // by settlements that are known to be stored
	sending  Amounts // taken by a Flush in progress
	pending  Amounts // adjusted, not yet sent
	entries  []entry // nil while each account has paid the acquired amounts
	rounds   []round // nil as long as entries are
}

// round is the part of a lease that one chain of entities has paid. A charge through
// another chain, because an ancestor was replaced or removed, begins a new round.
type round struct {
	net    Amounts    // taken less given back
	payers []*Account // only their entity and resource count
}

// has reports whether the bucket of an account was among the payers.
func (r *round) has(a *Account) bool { return slices.ContainsFunc(r.payers, a.sameBucket) }

// entry is the net amount that one account is known to have paid. It is never
// negative.
type entry struct {
	account *Account
	stored  Amounts
	past    bool // another bucket or ancestor has replaced the account, so it pays no more
	// spared marks the entry of amounts that shadow limits did not cover: they
	// changed the usage and not the balance, and so do their corrections.
	spared bool
}

// held returns the net amounts of the lease, which bound what it can give back.
func (l *Lease) held() Amounts {
	if l.rolledBack || len(l.payers) == 0 {
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
	// An outage was allowed: the store has recorded nothing, and there is
	// nothing to adjust.
	if len(l.payers) == 0 {
		return nil
	}

	held := l.held()
	for limit, n := range amounts.All() {
		if !l.hasLimit(limit) {
			return unknown("limit", limit, "is not a limit of this lease")
		}
		value := limit + "=" + strconv.FormatInt(n, 10)
		// Giving back more than was taken would mint tokens.
		if have := held.Get(limit); n < 0 && bucket.Add(have, n) < 0 {
			return invalid("adjust", value,
				fmt.Sprintf("gives back more than the lease holds; at most %d can be given back", have))
		}
		if room := l.adjustable(limit); n > room {
			return invalid("adjust", value,
				fmt.Sprintf("is more than a lease can adjust; at most %d can be added", room))
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
		return invalid("used", limit+"="+strconv.FormatInt(n, 10),
			"must not be negative; 0 means that nothing was used")
	}

	held := l.held().Get(limit)
	// adjust would refuse the difference too, but its error would name a number that
	// the caller did not give.
	if highest := bucket.Add(held, l.adjustable(limit)); n > held && n > highest {
		return invalid("used", limit+"="+strconv.FormatInt(n, 10),
			fmt.Sprintf("is more than a lease can hold; at most %d can be used", highest))
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
	for _, b := range l.payers {
		if hasLimit(b.Account.Limits, limit) {
			return true
		}
	}
	// A limit may have joined the account after the acquire, with a Consume.
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

	x.rounds = []round{{net: l.amounts, payers: accountsOf(l.payers)}}
	for _, b := range l.payers {
		paid, spared := b.divide(l.amounts)
		x.entries = append(x.entries, entry{account: b.Account, stored: paid})
		if spared.n > 0 {
			x.entries = append(x.entries, entry{account: b.Account, stored: spared, spared: true})
		}
	}
}

// divide returns the amounts of a charge that the bucket paid, and the amounts
// that its shadow limits were spared.
func (b Bucket) divide(amounts Amounts) (paid, spared Amounts) {
	if b.Detail == nil || b.Detail.Spared == nil {
		return amounts.forLimits(b.Account.Limits), Amounts{}
	}

	for i, l := range b.Account.Limits {
		n, named := amounts.Lookup(l.Name)
		switch {
		case !named:
		case b.spares(i):
			spared = spared.And(l.Name, n)
		default:
			paid = paid.And(l.Name, n)
		}
	}
	return paid, spared
}

// recordConsume records the amounts that Consume took from buckets. Only these
// buckets pay from now on.
func (c *changes) recordConsume(amounts Amounts, buckets []Bucket) {
	// An account that Consume did not charge was replaced meanwhile. It still
	// gets back what it paid.
	for i := range c.entries {
		c.entries[i].past = true
	}
	for _, b := range buckets {
		paid, spared := b.divide(amounts)
		c.record(b.Account, paid, false)
		c.record(b.Account, spared, true)
	}

	c.taken = c.taken.plus(amounts)
	c.recordRound(amounts, accountsOf(buckets))
}

// recordRound adds the amounts of a charge to the last round, or begins a new one.
func (c *changes) recordRound(amounts Amounts, payers []*Account) {
	if n := len(c.rounds); n > 0 && slices.EqualFunc(c.rounds[n-1].payers, payers, (*Account).sameBucket) {
		c.rounds[n-1].net = c.rounds[n-1].net.plus(amounts)
		return
	}
	c.rounds = append(c.rounds, round{amounts, payers})
}

// recordDue adds what was taken late to a round, and takes what was given back from the
// rounds, the last one first.
func (c *changes) recordDue(due Amounts, paying int) {
	for limit, n := range due.All() {
		if n > 0 {
			r := &c.rounds[paying]
			r.net = r.net.And(limit, n)
			continue
		}
		for i, back := range c.backs(limit, -n) {
			c.rounds[i].net = c.rounds[i].net.And(limit, -back)
		}
	}
}

// backs divides n tokens that come back among the rounds, the last one first.
func (c *changes) backs(limit string, n int64) []int64 {
	backs := make([]int64, len(c.rounds))
	for i := range slices.Backward(c.rounds) {
		backs[i] = max(0, min(n, c.rounds[i].net.Get(limit)))
		n -= backs[i]
	}
	return backs
}

// accountsOf returns the accounts of buckets.
func accountsOf(buckets []Bucket) []*Account {
	all := make([]*Account, len(buckets))
	for i, b := range buckets {
		all[i] = b.Account
	}
	return all
}

// record adds amounts to the entry of an account and updates the account of that
// entry. An account with another Ref is another life of the bucket, and gets an
// entry of its own. So does an account that has lost a limit: the old entry still
// knows the limit and what was paid for it.
func (c *changes) record(account *Account, amounts Amounts, spared bool) {
	for i := range c.entries {
		e := &c.entries[i]
		if e.spared == spared && e.account.sameBucket(account) && e.account.Ref == account.Ref &&
			account.hasAll(e.account.Limits) {
			e.account, e.past = account, false
			e.stored = e.stored.plus(amounts)
			return
		}
	}

	// An account that has paid nothing yet has an entry too, so that takes finds it.
	if !spared || amounts.n > 0 {
		c.entries = append(c.entries, entry{account: account, stored: amounts, spared: spared})
	}
}

func (a *Account) sameBucket(b *Account) bool {
	return a.Entity == b.Entity && a.Resource == b.Resource
}

// hasAll reports whether the account has limits of these names.
func (a *Account) hasAll(limits []Limit) bool {
	return !slices.ContainsFunc(limits, func(l Limit) bool { return !hasLimit(a.Limits, l.Name) })
}

// payer returns the account that pays more of a limit for a current one: itself or, if
// the limit has left, the latest that had it. It returns nil if none had it.
func (c *changes) payer(current *Account, limit string) *Account {
	if hasLimit(current.Limits, limit) {
		return current
	}
	// The limit may have left the bucket, which remembers it.
	for _, e := range slices.Backward(c.entries) {
		if e.account.sameBucket(current) && hasLimit(e.account.Limits, limit) {
			return e.account
		}
	}
	return nil
}

// takes adds an amount of a limit to the parts of the entries that pay it.
func (c *changes) takes(parts []Amounts, limit string, n int64) {
	// Only accounts that the last charge reached pay more. A spared entry shares its
	// account with another entry, and must not make it pay twice.
	for _, current := range c.entries {
		if current.past || current.spared {
			continue
		}

		payer := c.payer(current.account, limit)
		for i := range c.entries {
			if e := &c.entries[i]; e.account == payer && c.paysMore(e, limit) {
				parts[i] = parts[i].And(limit, n)
			}
		}
	}
}

// split divides due among the entries, by index. Every current account that has or had
// the limit pays a positive amount. A negative amount goes back to every payer, by
// rounds, the last one first. For example, a lease takes 10 while a key is below one
// team, and 10 below another. If 15 come back, the second team gets 10, the first one 5,
// and the key 15.
func (c *changes) split(due Amounts) []Amounts {
	parts := make([]Amounts, len(c.entries))
	for limit, n := range due.All() {
		if n > 0 {
			c.takes(parts, limit, n)
			continue
		}

		backs := c.backs(limit, -n)
		given := make([]int64, len(c.entries)) // to the bucket of an entry, by its first entry
		for _, i := range c.payOrder() {
			e := &c.entries[i]
			share := int64(0)
			for j := range c.rounds {
				if c.rounds[j].has(e.account) {
					share += backs[j]
				}
			}

			// A bucket has several entries if it was deleted and created again, or has
			// lost a limit. No account gets back more than it paid.
			first := slices.IndexFunc(c.entries, func(other entry) bool { return other.account.sameBucket(e.account) })
			if back := min(share-given[first], e.stored.Get(limit)); back > 0 {
				given[first] += back
				parts[i] = parts[i].And(limit, -back)
			}
		}
	}
	return parts
}

// paysMore reports whether a take of a limit goes to this entry of its account
// rather than to its sibling. It goes to the spared entry if the account has been
// spared the limit and has never paid it.
func (c *changes) paysMore(e *entry, limit string) bool {
	_, named := e.stored.Lookup(limit)
	other := false
	for i := range c.entries {
		if sibling := &c.entries[i]; sibling.account == e.account && sibling.spared != e.spared {
			_, other = sibling.stored.Lookup(limit)
		}
	}

	// A limit that neither entry names is paid.
	if e.spared {
		return named && !other
	}
	return named || !other
}

// payOrder returns the indices of the entries: current accounts first, then past
// ones, latest first.
func (c *changes) payOrder() []int {
	var current, past []int
	for i := range c.entries {
		// Past entries are taken from the end, and current ones from the start.
		if last := len(c.entries) - 1 - i; c.entries[last].past {
			past = append(past, last)
		}

		if !c.entries[i].past {
			current = append(current, i)
		}
	}
	return append(current, past...)
}

// credits returns the credits that make each entry pay its part, one for each
// account where possible.
func (c *changes) credits(parts []Amounts, undo bool) (all []Credit) {
	for i, part := range parts {
		e := &c.entries[i]
		// An amount of 0 changes nothing, and a credit may cost a request.
		if part = part.nonzero(); part.n == 0 {
			continue
		}
		credit := Credit{Account: e.account, Amounts: part.negated(), Undo: undo}
		if e.spared {
			credit.Spared = part.names()
		}

		// The spared entry of an account mostly follows its other entry.
		if n := len(all); n == 0 || !all[n-1].join(credit) {
			all = append(all, credit)
		}
	}
	return all
}

// join adds the amounts of a spared entry to the credit of the same account, and
// reports whether it did. They stay apart if a limit was spared once and paid once.
func (c *Credit) join(spared Credit) bool {
	if spared.Spared == nil || c.Account != spared.Account {
		return false
	}
	// A credit has one amount for each limit, which is either spared or not.
	for _, limit := range spared.Spared {
		if _, named := c.Amounts.Lookup(limit); named {
			return false
		}
	}

	c.Amounts, c.Spared = c.Amounts.plus(spared.Amounts), spared.Spared
	return true
}

// undo clears the entries and returns the credits that give back all they paid.
func (c *changes) undo() []Credit {
	parts := make([]Amounts, len(c.entries))
	for i := range c.entries {
		e := &c.entries[i]
		// A rollback during a Flush undoes twice. The second time gives back
		// only what the Flush has stored meanwhile.
		parts[i], e.stored = e.stored.negated(), Amounts{}
	}
	return c.credits(parts, true)
}

// recordPaid adds the parts with one sign to the entries.
func (c *changes) recordPaid(parts []Amounts, sign func(Amounts) Amounts) {
	for i, part := range parts {
		e := &c.entries[i]
		e.stored = e.stored.plus(sign(part))
	}
}
