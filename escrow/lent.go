package escrow

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// lentKey identifies a limit of an account.
type lentKey struct {
	account limiter.Scope
	limit   string
}

// lend reserves up to n tokens of a limit and returns how many. All pots of an
// account together hold at most an eighth of its capacity.
func (all *pots) lend(key lentKey, n, capacity int64) int64 {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	l := all.lent[key]
	if l == nil {
		l = &loan{}
	}
	n = max(0, min(n, capacity/share-l.tokens))
	if n > 0 {
		l.tokens += n
		all.lent[key] = l
	}
	return n
}

// unlend ends the reservation of n tokens.
func (all *pots) unlend(key lentKey, n int64) {
	if n == 0 {
		return
	}
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	l := all.lent[key]
	if l.tokens -= n; l.tokens == 0 {
		delete(all.lent, key)
	}
}

// loan holds the tokens of one limit that the pots have, until their grants end.
type loan struct {
	tokens int64        // of grants, held or spent
	held   atomic.Int64 // of them; pots with different locks change it
}

// loans are those of a slot, of either account.
type loans struct{ self, parent *loan }

// add counts tokens as held.
func (l loans) add(n int64) {
	if l.self != nil {
		l.self.held.Add(n)
	}
	if l.parent != nil {
		l.parent.held.Add(n)
	}
}

// loans returns the loans of all slots. A slot of which nothing is lent has none.
func (all *pots) loans(a *accounts) []loans {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	list := make([]loans, len(a.slots))
	for j, s := range a.slots {
		if s.self >= 0 {
			list[j].self = all.lent[a.lentKey(false, s.name)]
		}
		if s.parent >= 0 {
			list[j].parent = all.lent[a.lentKey(true, s.name)]
		}
	}
	return list
}

// withOthers returns a refusal of amounts with what other pots than p hold as
// available; p may be nil. A limit that lacks an amount shows it only if it lacks
// the amount still: the call cannot have it, and a retry at once would not help.
func (all *pots) withOthers(out limiter.Outcome, amounts *limiter.Amounts, p *pot) limiter.Outcome {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	if len(all.lent) == 0 {
		return out
	}
	for _, b := range []*limiter.Bucket{&out.Self, &out.Parent} {
		if b.Account == nil {
			continue
		}
		b.Tokens = slices.Clone(b.Tokens)
		for i, l := range b.Account.Limits {
			shown := addUpTo(b.Tokens[i], bucket.Thousandths(all.heldByOthers(b.Account, l.Name, p)), l)
			if n, named := amounts.Lookup(l.Name); named && b.Tokens[i] < bucket.Thousandths(n) && shown >= bucket.Thousandths(n) {
				continue
			}
			b.Tokens[i] = shown
		}
	}
	return out
}

// heldByOthers returns the tokens of a limit that other pots than p hold.
func (all *pots) heldByOthers(a *limiter.Account, limit string, p *pot) int64 {
	l := all.lent[lentKey{limiter.Scope{Entity: a.Entity, Resource: a.Resource}, limit}]
	if l == nil {
		return 0
	}
	n := l.held.Load()
	if p != nil {
		if j := p.slot(limit, 0); j >= 0 {
			n -= p.held[j]
		}
	}
	return n
}

// refund counts the tokens of a limit that went back to the store. They include
// those that no pot held: what was given back was not spent.
type refund struct {
	spending
	hold time.Duration // of the account
	at   time.Duration // of the last one
}

// refund records that the store got back n spent tokens of a limit, so that pots
// hold less. With n 0, unspent tokens were returned.
func (all *pots) refund(a *limiter.Account, limit string, n int64) {
	if all.maxHold == 0 {
		return
	}
	key := lentKey{limiter.Scope{Entity: a.Entity, Resource: a.Resource}, limit}
	now, hold := all.machine(), max(minHold, shortestHold(all.maxHold, a.Limits))
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	r := all.given[key]
	if r == nil || r.hold != hold {
		next := &refund{hold: hold}
		if r != nil {
			next.add(now, hold, r.atLeast(now, r.hold))
		}
		r = next
		all.given[key] = r
	}
	r.add(now, hold, n)
	r.at = now
}

// refunding records that the store is about to get back spent tokens.
func (all *pots) refunding(credits []limiter.Credit) {
	for _, c := range credits {
		for limit, n := range c.Amounts.All() {
			if n > 0 && c.Account != nil {
				all.refund(c.Account, limit, n)
			}
		}
	}
}

// returnedTo records that the store has got back tokens that count as refunded or
// were never spent.
func (all *pots) returnedTo(credits []limiter.Credit) {
	for _, c := range credits {
		for limit, n := range c.Amounts.All() {
			if n > 0 && c.Account != nil {
				all.refund(c.Account, limit, 0)
			}
		}
	}
}

// refunded returns the spent tokens of a limit that the store got back in the last
// hold, and when it last got any.
func (all *pots) refunded(key lentKey) (n int64, at time.Duration) {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	r := all.given[key]
	if r == nil {
		return 0, 0
	}
	return r.atLeast(all.machine(), r.hold), r.at
}

// sweepRefunds forgets those that count no longer.
func (all *pots) sweepRefunds(now time.Duration) {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	for key, r := range all.given {
		if r.atLeast(now, r.hold) == 0 && now-r.at > all.maxHold {
			delete(all.given, key)
		}
	}
}
