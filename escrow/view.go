package escrow

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Peek returns the outcome that Consume would have, with what this process holds
// as available.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	key := limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}
	own := r.heldByPot(now, key)

	out, err := r.Repository.Peek(ctx, now, charge)
	if err != nil {
		// Another process may have disabled the bucket.
		r.pots.closeDisabled(key, err)
		return out, err
	}

	// The store may share its answer with other callers.
	out.Payers = cloneBuckets(out.Payers)
	for i := range out.Payers {
		own.addTo(&out.Payers[i])
		payHeld(&out.Payers[i], &charge.Amounts)
	}

	// The store refuses by its own balance, but the next call can spend from
	// the pot.
	if !out.Admitted && covers(&charge, out.Payers) {
		out.Admitted = true
		pay(&charge.Amounts, now.UnixMilli(), out.Payers)
	}

	// An admission shows what all pots hold. A refusal must not show its amount
	// as covered.
	refused := &charge.Amounts
	if out.Admitted {
		refused = nil
	}

	p := r.pots.lock(key, false)
	if p != nil {
		defer p.mu.Unlock()
	}
	return r.pots.withOthers(out, refused, p), nil
}

// Buckets iterates over the buckets, with what this process holds as available.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		// A token that goes back while the store reads shows twice, and never
		// as missing.
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

// heldByPot returns the tokens that the pot of a bucket can spend at now.
func (r *Repository) heldByPot(now time.Time, key limiter.Scope) heldTokens {
	held := heldTokens{}
	if p := r.pots.lock(key, false); p != nil {
		defer p.mu.Unlock()
		held.addPot(p, tick{now.UnixMilli(), r.machine()})
	}
	return held
}

// heldTokens returns the tokens that all pots can spend at now.
func (r *Repository) heldTokens(now time.Time) heldTokens {
	held := heldTokens{}

	t := tick{now.UnixMilli(), r.machine()}
	for i := range r.pots.shards {
		s := &r.pots.shards[i]
		s.mu.Lock()
		for _, p := range s.byKey {
			held.addPot(p, t)
		}
		s.mu.Unlock()
	}
	return held
}

// addPot adds what a pot holds.
func (h heldTokens) addPot(p *pot, t tick) {
	for _, g := range p.grants {
		// A read at another time ends no hold, but must not show what is over.
		if !g.over(t) {
			h.add(g)
		}
	}
}

// add adds what a grant holds.
func (h heldTokens) add(g *grant) {
	for j, n := range g.held {
		if n <= 0 {
			continue
		}
		// A token is available to each of its payers.
		for _, at := range g.slots[j].places {
			h[g.lentKey(at)] += n
		}
	}
}

// addTo adds the held tokens to the balances of a bucket.
func (h heldTokens) addTo(b *limiter.Bucket) {
	if b.Account == nil || len(h) == 0 {
		return
	}

	for i, l := range b.Account.Limits {
		if n := h[lentKeyOf(b.Account, l.Name)]; n > 0 {
			b.Tokens[i] = addUpTo(b.Tokens[i], bucket.Thousandths(n), l)
		}
	}
}

// covers reports whether every limit that can refuse the charge covers its amount.
func covers(c *limiter.Charge, buckets []limiter.Bucket) bool {
	for _, b := range buckets {
		for i := range b.Account.Limits {
			l := &b.Account.Limits[i]
			if n, named := c.Amounts.Lookup(l.Name); named && b.Tokens[i] < bucket.Thousandths(n) && enforces(l, c) {
				return false
			}
		}
	}
	return true
}

// pay takes the amounts from the balances at now. It spares the limits that do not
// cover theirs.
func pay(amounts *limiter.Amounts, now int64, buckets []limiter.Bucket) {
	for k := range buckets {
		b := &buckets[k]
		for i, l := range b.Account.Limits {
			n, named := amounts.Lookup(l.Name)
			switch need := bucket.Thousandths(n); {
			case !named:
			case b.Tokens[i] >= need:
				b.Tokens[i] -= need
			default:
				// An enforced limit covers its amount here, so this is a shadow
				// limit.
				spare(b, i, now)
			}
		}
	}
}

// payHeld takes amounts that the store would spare, and that the balance covers
// with what the pot holds.
func payHeld(b *limiter.Bucket, amounts *limiter.Amounts) {
	if spared(b) == nil {
		return
	}

	// Copies, since the store may share its answer with other callers.
	d := *b.Detail
	d.Spared = slices.Clone(d.Spared)
	for i, l := range b.Account.Limits {
		// With the pot, the shadow limit covers its amount after all.
		if need := bucket.Thousandths(amounts.Get(l.Name)); d.Spared[i] && b.Tokens[i] >= need {
			b.Tokens[i] -= need
			d.Spared[i] = false
		}
	}

	if !slices.Contains(d.Spared, true) {
		d.Spared = nil
	}
	b.Detail = &d
}

// spare marks limit i of a bucket as spared.
func spare(b *limiter.Bucket, i int, now int64) {
	d := limiter.Detail{At: now}
	if b.Detail != nil {
		d = *b.Detail
	}

	// A copy, since the detail may be shared.
	d.Spared = slices.Clone(d.Spared)
	if d.Spared == nil {
		d.Spared = make([]bool, len(b.Account.Limits))
	}

	d.Spared[i] = true
	b.Detail = &d
}
