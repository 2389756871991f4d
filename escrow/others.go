package escrow

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// withOthers returns an outcome of a pot with what other pots hold as available.
// The caller has locked the pot, or passes nil. After a refusal, the caller passes
// the amounts that were refused.
func (all *pots) withOthers(out limiter.Outcome, refused *limiter.Amounts, p *pot) limiter.Outcome {
	// Most of the time nothing is held. Then the balances need no copy, and no pot
	// a lock.
	if !all.lends() {
		return out
	}

	// Other callers may share the buckets.
	out.Payers = cloneBuckets(out.Payers)
	for k := range out.Payers {
		b := &out.Payers[k]
		for i, l := range b.Account.Limits {
			held := bucket.Thousandths(all.heldByOthers(b, i, p))
			shown := addUpTo(b.Tokens[i], held, l)
			// A refusal that showed its amount as covered would make the caller
			// retry at once.
			if refused != nil {
				shown = min(shown, all.mostOf(b, i, refused))
			}
			b.Tokens[i] = shown
		}
	}
	return out
}

// mostOf returns the most that a limit may show in a refusal. A limit that does not
// cover its amount shows so little that the amount still does not fit for one hold:
// the call cannot spend what other pots hold, but may find those tokens in the
// bucket when their hold has ended.
func (all *pots) mostOf(b *limiter.Bucket, i int, refused *limiter.Amounts) int64 {
	// The caller does not wait for a limit that covers its amount.
	l := b.Account.Limits[i]
	n, named := refused.Lookup(l.Name)
	if !named || b.Tokens[i] >= bucket.Thousandths(n) {
		return math.MaxInt64
	}

	// If 90 tokens are asked for and a hold refills 1, the limit shows at most
	// 89: the caller then waits for a hold, which is when others return theirs.
	hold := max(minHold, shortestHold(all.maxHold, b.Account.Limits))
	return max(b.Tokens[i],
		bucket.Sub(bucket.Thousandths(n), max(1, bucket.Accrued(0, hold.Milliseconds(), rules.RateOf(l)))))
}

// lends reports whether any pot may hold tokens.
func (all *pots) lends() bool {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	return len(all.lent) > 0
}

// heldByOthers returns the tokens of limit i that other pots than p hold, of the
// bucket's window: the account's own, and those of its descendants.
func (all *pots) heldByOthers(b *limiter.Bucket, i int, p *pot) (n int64) {
	key, window := lentKeyOf(b.Account, b.Account.Limits[i].Name), windowAt(startsOf(b), i)

	// The balance of p's own bucket already shows what p holds.
	if p == nil || p.key != key.account {
		n = all.heldByItself(key, window, p)
	}

	all.lentMu.Lock()
	defer all.lentMu.Unlock()

	// Tokens of another window cannot be spent in the window of the bucket.
	l := all.lent[key]
	if l == nil || l.descendants == nil || l.descendants.window != window {
		return n
	}

	n += l.descendants.tokens.Load()

	// The balance of an ancestor already shows what p holds.
	if p != nil {
		// Only grants of this window are in the counter.
		if j := p.slot(key.limit, 0); j >= 0 {
			n -= p.heldOf(j, func(g *grant) bool { return slices.Contains(g.loans[j], l.descendants) })
		}
	}
	return n
}

// heldByItself returns the tokens of a limit and a window that the pot of a bucket
// holds. The caller may have locked a pot, and two callers that each wait for the
// other's pot would deadlock. So a pot that is in use shows nothing.
func (all *pots) heldByItself(key lentKey, window int64, locked *pot) int64 {
	s := all.shard(key.account)

	// The caller holds this lock already if its own pot is in the shard.
	if locked == nil || locked.shard != s {
		if !s.mu.TryLock() {
			return 0
		}
		defer s.mu.Unlock()
	}

	p := s.byKey[key.account]
	if p == nil {
		return 0
	}

	j := p.slot(key.limit, 0)
	if j < 0 {
		return 0
	}

	// Places are in the order of the payers. The limit may be one of ancestors
	// alone.
	at := p.slots[j].places[0]
	if at.payer > 0 {
		return 0
	}
	return p.heldOf(j, func(g *grant) bool { return windowAt(g.windows[0], at.limit) == window })
}

// heldOf returns the tokens of a slot in the grants that match.
func (p *pot) heldOf(j int, match func(*grant) bool) (n int64) {
	for _, g := range p.grants {
		if match(g) {
			n += g.held[j]
		}
	}
	return n
}
