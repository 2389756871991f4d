package escrow

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
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

	// A reservation of nothing must leave no entry: unlend would not remove it.
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
	tokens   int64     // of grants, held or spent
	children *children // of the latest window; nil for none
}

// children counts the tokens of a window that the pots of children hold. The count
// is atomic, since each of these pots has a lock of its own. A rate has the window
// 0.
type children struct {
	window int64
	tokens atomic.Int64
}

// heldByChildren returns by slot the counter of the parent's loan in which a grant
// of these windows counts. It is nil where the parent lends nothing.
func (all *pots) heldByChildren(a *accounts, w *windows) []*children {
	list := make([]*children, len(a.slots))
	if a.parent == nil {
		return list
	}

	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	for j, s := range a.slots {
		if s.parent < 0 {
			continue
		}
		if l := all.lent[a.lentKey(true, s.name)]; l != nil {
			list[j] = l.childrenOf(windowAt(w.parent, s.parent))
		}
	}
	return list
}

// childrenOf returns the counter of a window, or nil if a later window has begun.
// The caller holds the lock.
func (l *loan) childrenOf(window int64) *children {
	// The latest window replaces an earlier one. Tokens of that one cannot be
	// spent, so refusals do not show them as available.
	if l.children == nil || l.children.window < window {
		l.children = &children{window: window}
	}

	if l.children.window != window {
		return nil
	}
	return l.children
}

// refund counts the tokens of a limit that went back to the store, whether a pot
// held them or not: a token that was given back was not spent.
type refund struct {
	spending
	hold time.Duration // of the account
	at   time.Duration // of the last one
}

// refund records that the store got back n spent tokens of a limit, so that pots
// hold less. If n is 0, it records the time alone.
func (all *pots) refund(a *limiter.Account, limit string, n int64) {
	// Where nothing is held, there is nothing to bound.
	if all.maxHold == 0 {
		return
	}

	key := lentKey{limiter.Scope{Entity: a.Entity, Resource: a.Resource}, limit}
	now, hold := all.machine(), max(minHold, shortestHold(all.maxHold, a.Limits))

	all.lentMu.Lock()
	defer all.lentMu.Unlock()

	// After a change of limits the slices have another length. What the old
	// ones count then counts as given back just now, which makes pots hold
	// less, not more.
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
			// A spared charge took no tokens, so its credit gives none back.
			if n > 0 && c.Account != nil && !slices.Contains(c.Spared, limit) {
				all.refund(c.Account, limit, n)
			}
		}
	}
}

// returnedTo records when the store got tokens back, so that earlier refusals do
// not count. The tokens are not counted again: refunding has counted them, or they
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

// sweepRefunds forgets the refunds that are older than every hold.
func (all *pots) sweepRefunds(now time.Duration) {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	for key, r := range all.given {
		// refundedSince looks up the time for as long as a refusal counts,
		// which is a hold.
		if r.atLeast(now, r.hold) == 0 && now-r.at > all.maxHold {
			delete(all.given, key)
		}
	}
}
