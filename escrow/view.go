package escrow

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Peek returns the outcome that Consume would have, with what this process holds
// as available. The charge can spend what its own pot holds. If it is refused, a
// limit that would cover it with the tokens of other pots does not show these.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	own, others := r.heldTokens(now, limiter.Scope{Entity: charge.Entity, Resource: charge.Resource})
	out, err := r.Repository.Peek(ctx, now, charge)
	if err != nil {
		return out, err
	}
	payers := []*limiter.Bucket{&out.Self, &out.Parent}
	for _, b := range payers {
		own.addTo(b, nil)
	}
	if !out.Admitted && covers(&charge.Amounts, payers...) {
		out.Admitted = true
		pay(&charge.Amounts, payers...)
	}
	refused := &charge.Amounts
	if out.Admitted {
		refused = nil
	}
	for _, b := range payers {
		others.addTo(b, refused)
	}
	return out, nil
}

// Buckets iterates over the buckets, with what this process holds as available.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		_, held := r.heldTokens(now, limiter.Scope{})
		for b, err := range r.Repository.Buckets(ctx, now, of) {
			if err == nil {
				held.addTo(&b, nil)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// heldTokens holds the tokens that the pots of a namespace hold, by limit.
type heldTokens map[lentKey]int64

// heldTokens returns the tokens that can be spent at now, by the pot of a bucket
// and by others.
func (r *Repository) heldTokens(now time.Time, key limiter.Scope) (own, others heldTokens) {
	own, others = heldTokens{}, heldTokens{}
	t := tick{now.UnixMilli(), r.machine()}
	for i := range r.pots.shards {
		s := &r.pots.shards[i]
		s.mu.Lock()
		for _, p := range s.byKey {
			held := others
			if p.key == key {
				held = own
			}
			for _, g := range p.grants {
				if !g.over(t) {
					held.add(g)
				}
			}
		}
		s.mu.Unlock()
	}
	return own, others
}

// add adds what a grant holds.
func (h heldTokens) add(g *grant) {
	for j, n := range g.held {
		if n > 0 && g.slots[j].self >= 0 {
			h[g.lentKey(false, g.slots[j].name)] += n
		}
		if n > 0 && g.slots[j].parent >= 0 {
			h[g.lentKey(true, g.slots[j].name)] += n
		}
	}
}

// addTo adds the held tokens to the balances of a bucket. If it refused amounts, a
// limit that would cover them then stays as it is.
func (h heldTokens) addTo(b *limiter.Bucket, refused *limiter.Amounts) {
	if b.Account == nil || len(h) == 0 {
		return
	}
	for i, l := range b.Account.Limits {
		key := lentKey{limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}, l.Name}
		if n := h[key]; n > 0 {
			showHeld(b, i, n, refused)
		}
	}
}

// showHeld adds held tokens to a balance. If the bucket refused amounts, and the
// limit would cover its amount then, it adds nothing: the tokens are in pots that
// the call cannot spend, and a retry at once would not help.
func showHeld(b *limiter.Bucket, i int, held int64, refused *limiter.Amounts) {
	l := b.Account.Limits[i]
	shown := addUpTo(b.Tokens[i], bucket.Thousandths(held), l)
	if refused != nil {
		n, named := refused.Lookup(l.Name)
		if need := bucket.Thousandths(n); named && b.Tokens[i] < need && shown >= need {
			return
		}
	}
	b.Tokens[i] = shown
}

// covers reports whether every bucket covers the amounts that it has a limit for.
func covers(amounts *limiter.Amounts, buckets ...*limiter.Bucket) bool {
	for _, b := range buckets {
		if b.Account == nil {
			continue
		}
		for i, l := range b.Account.Limits {
			if n, named := amounts.Lookup(l.Name); named && b.Tokens[i] < bucket.Thousandths(n) {
				return false
			}
		}
	}
	return true
}

// pay takes the amounts from the balances.
func pay(amounts *limiter.Amounts, buckets ...*limiter.Bucket) {
	for _, b := range buckets {
		if b.Account == nil {
			continue
		}
		for i, l := range b.Account.Limits {
			b.Tokens[i] -= bucket.Thousandths(amounts.Get(l.Name))
		}
	}
}
