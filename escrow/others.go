package escrow

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// withOthers returns an outcome of a pot with what other pots hold as available.
// The caller has locked the pot, or passes nil. If amounts were refused, it passes
// these.
func (all *pots) withOthers(out limiter.Outcome, refused *limiter.Amounts, p *pot) limiter.Outcome {
	for _, b := range []*limiter.Bucket{&out.Self, &out.Parent} {
		if b.Account == nil || !all.lends() {
			continue
		}
		b.Tokens = slices.Clone(b.Tokens)
		for i, l := range b.Account.Limits {
			held := bucket.Thousandths(all.heldByOthers(b, i, p))
			shown := addUpTo(b.Tokens[i], held, l)
			if refused != nil {
				shown = min(shown, all.mostOf(b, i, refused))
			}
			b.Tokens[i] = shown
		}
	}
	return out
}

// mostOf returns the most that a limit that lacks its amount may show: it refuses
// the amount for a hold still. A call cannot spend what other pots hold, but may
// find the tokens in the bucket when their hold has ended.
func (all *pots) mostOf(b *limiter.Bucket, i int, refused *limiter.Amounts) int64 {
	l := b.Account.Limits[i]
	n, named := refused.Lookup(l.Name)
	if !named || b.Tokens[i] >= bucket.Thousandths(n) {
		return math.MaxInt64
	}
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
// bucket's window: the account's own, and those of its children.
func (all *pots) heldByOthers(b *limiter.Bucket, i int, p *pot) (n int64) {
	key := limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}
	limit, window := b.Account.Limits[i].Name, windowAt(startsOf(b), i)
	if p == nil || p.key != key {
		n = all.heldByItself(key, limit, window, p)
	}
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	l := all.lent[lentKey{key, limit}]
	if l == nil || l.children == nil || l.children.window != window {
		return n
	}
	n += l.children.tokens.Load()
	if p != nil && p.parent != nil && p.parent.Entity == b.Account.Entity {
		if j := p.slot(limit, 0); j >= 0 {
			n -= p.heldOf(j, func(g *grant) bool { return g.loans[j] == l.children })
		}
	}
	return n
}

// heldByItself returns the tokens of a limit that the pot of a bucket holds, of a
// window. To lock a second pot could deadlock, so a pot that is in use shows
// nothing.
func (all *pots) heldByItself(key limiter.Scope, limit string, window int64, locked *pot) int64 {
	s := all.shard(key)
	if locked == nil || locked.shard != s {
		if !s.mu.TryLock() {
			return 0
		}
		defer s.mu.Unlock()
	}
	p := s.byKey[key]
	if p == nil {
		return 0
	}
	j := p.slot(limit, 0)
	if j < 0 || p.slots[j].self < 0 {
		return 0
	}
	return p.heldOf(j, func(g *grant) bool { return windowAt(g.windows.self, p.slots[j].self) == window })
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
