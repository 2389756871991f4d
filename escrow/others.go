package escrow

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// withOthers returns a refusal of amounts by a pot with what other pots hold as
// available. The caller has locked the pot, or passes nil.
func (all *pots) withOthers(out limiter.Outcome, amounts *limiter.Amounts, p *pot) limiter.Outcome {
	for _, b := range []*limiter.Bucket{&out.Self, &out.Parent} {
		if b.Account == nil || !all.lends() {
			continue
		}
		b.Tokens = slices.Clone(b.Tokens)
		for i, l := range b.Account.Limits {
			showHeld(b, i, all.heldByOthers(b.Account, l.Name, p), amounts)
		}
	}
	return out
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
