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

func lentKeyOf(a *limiter.Account, limit string) lentKey {
	return lentKey{limiter.Scope{Entity: a.Entity, Resource: a.Resource}, limit}
}

// lentKey returns the key of a limit at a place.
func (a *accounts) lentKey(at place) lentKey { return lentKeyOf(a.payers[at.payer], a.limit(at).Name) }

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
	tokens      int64        // of grants, held or spent
	descendants *descendants // of the latest window; nil for none
}

// descendants counts the tokens of a window that the pots of descendants hold. The
// count is atomic, since each of these pots has a lock of its own. A rate has the
// window 0.
type descendants struct {
	window int64
	tokens atomic.Int64
}

// lenders returns by slot the counters of the ancestors' loans in which a grant of
// these windows counts. An ancestor that lends nothing has none.
func (all *pots) lenders(a *accounts, w windows) [][]*descendants {
	list := make([][]*descendants, len(a.slots))
	if len(a.payers) == 1 {
		return list
	}

	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	for j, s := range a.slots {
		for _, at := range s.places {
			// The pot itself shows what it holds of its own bucket.
			l := all.lent[a.lentKey(at)]
			if at.payer == 0 || l == nil {
				continue
			}
			if d := l.descendantsOf(windowAt(w[at.payer], at.limit)); d != nil {
				list[j] = append(list[j], d)
			}
		}
	}
	return list
}

// descendantsOf returns the counter of a window, or nil if a later window has begun.
// The caller holds the lock.
func (l *loan) descendantsOf(window int64) *descendants {
	// The latest window replaces an earlier one. Tokens of that one cannot be
	// spent, so refusals do not show them as available.
	if l.descendants == nil || l.descendants.window < window {
		l.descendants = &descendants{window: window}
	}

	if l.descendants.window != window {
		return nil
	}
	return l.descendants
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

	key := lentKeyOf(a, limit)
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
