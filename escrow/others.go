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
			held := bucket.Thousandths(all.heldByOthers(b.Account, l.Name, p))
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
	return max(b.Tokens[i], bucket.Sub(bucket.Thousandths(n), max(1, bucket.Accrued(0, hold.Milliseconds(), rules.RateOf(l)))))
}

// lends reports whether any pot may hold tokens.
func (all *pots) lends() bool {
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	return len(all.lent) > 0
}

// heldByOthers returns the tokens of a limit that other pots than p hold: the
// account's own, and those of its children.
func (all *pots) heldByOthers(a *limiter.Account, limit string, p *pot) (n int64) {
	key := limiter.Scope{Entity: a.Entity, Resource: a.Resource}
	if p == nil || p.key != key {
		n = all.heldByItself(key, limit, p)
	}
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	if l := all.lent[lentKey{key, limit}]; l != nil {
		n += l.children.Load()
	}
	if p != nil && p.parent != nil && p.parent.Entity == a.Entity {
		if j := p.slot(limit, 0); j >= 0 {
			n -= p.held[j]
		}
	}
	return n
}

// heldByItself returns the tokens of a limit that the pot of a bucket holds. To
// lock a second pot could deadlock, so a pot that is in use shows nothing.
func (all *pots) heldByItself(key limiter.Scope, limit string, locked *pot) int64 {
	s := all.shard(key)
	if locked == nil || locked.shard != s {
		if !s.mu.TryLock() {
			return 0
		}
		defer s.mu.Unlock()
	}
	if p := s.byKey[key]; p != nil {
		if j := p.slot(limit, 0); j >= 0 {
			return p.held[j]
		}
	}
	return 0
}
