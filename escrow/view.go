package escrow

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Peek returns the outcome that Consume would have, with what this process holds
// as available.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	held := r.heldTokens(now)
	out, err := r.Repository.Peek(ctx, now, charge)
	if err != nil {
		return out, err
	}
	for _, b := range []*limiter.Bucket{&out.Self, &out.Parent} {
		held.addTo(b)
	}
	if !out.Admitted && covers(&charge.Amounts, &out.Self, &out.Parent) {
		out.Admitted = true
		pay(&charge.Amounts, &out.Self, &out.Parent)
	}
	return out, nil
}

// Buckets iterates over the buckets, with what this process holds as available.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		held := r.heldTokens(now)
		for b, err := range r.Repository.Buckets(ctx, now, of) {
			if err == nil {
				held.addTo(&b)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// heldTokens holds the tokens that the pots of a namespace hold, by limit.
type heldTokens map[lentKey]int64

// heldTokens returns the tokens that can be spent at now.
func (r *Repository) heldTokens(now time.Time) heldTokens {
	held := heldTokens{}
	t := tick{now.UnixMilli(), r.machine()}
	for i := range r.pots.shards {
		s := &r.pots.shards[i]
		s.mu.Lock()
		for _, p := range s.byKey {
			for _, g := range p.grants {
				if !g.over(t) {
					held.add(g)
				}
			}
		}
		s.mu.Unlock()
	}
	return held
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

// addTo adds the held tokens to the balances of a bucket.
func (h heldTokens) addTo(b *limiter.Bucket) {
	if b.Account == nil || len(h) == 0 {
		return
	}
	for i, l := range b.Account.Limits {
		key := lentKey{limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}, l.Name}
		if n := h[key]; n > 0 {
			b.Tokens[i] = addUpTo(b.Tokens[i], bucket.Thousandths(n), l)
		}
	}
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
