package escrow

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// A shadow limit counts in a pot like an enforced one: the pot holds and spends its
// tokens. A request for several callers is strict, so that the store never spares
// the sum of their charges. If only shadow limits do not cover a charge, it goes to
// the store alone and unchanged, so that the store counts it once.

// through sends a charge that a shadow limit does not cover to the store. The store
// has to cover its other amounts in full, so the pot first returns what it holds of
// them.
func (r *Repository) through(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	p := r.pots.lock(limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}, false)
	if p == nil {
		return r.direct(ctx, now, charge)
	}

	holds := p.holdsSome(&charge.Amounts)
	p.mu.Unlock()
	if holds {
		return r.override(ctx, now, charge, p)
	}

	return r.direct(ctx, now, charge)
}

// holdsSome reports whether the pot holds tokens of a limit that amounts name.
func (p *pot) holdsSome(amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		name, _ := amounts.At(i)
		if j := p.slot(name, i); j >= 0 && p.held[j] > 0 {
			return true
		}
	}
	return false
}

// enforces reports whether a limit refuses a charge that it does not cover.
func enforces(l *limiter.Limit, c *limiter.Charge) bool { return !l.IsShadow || c.Strict }

// sparesOnly reports whether a refused charge names a shadow limit, and every
// enforced limit covers it.
func (a *accounts) sparesOnly(c *limiter.Charge, out *limiter.Outcome) bool {
	// Shadow limits refuse a strict charge, too, so the store would spare
	// nothing.
	if c.Strict || !slices.ContainsFunc(a.payers, func(payer *limiter.Account) bool {
		return namesShadow(&c.Amounts, payer)
	}) {
		return false
	}

	return covers(c, out.Payers)
}

// namesShadow reports whether amounts name a shadow limit of an account.
func namesShadow(amounts *limiter.Amounts, a *limiter.Account) bool {
	return slices.ContainsFunc(a.Limits, func(l limiter.Limit) bool {
		_, named := amounts.Lookup(l.Name)
		return named && l.IsShadow
	})
}

// spares reports whether the store spared a limit of an outcome.
func spares(out *limiter.Outcome) bool {
	return slices.ContainsFunc(out.Payers, func(b limiter.Bucket) bool { return spared(&b) != nil })
}

// spared returns the limits that the store spared, nil for none.
func spared(b *limiter.Bucket) []bool {
	if b.Detail == nil {
		return nil
	}
	return b.Detail.Spared
}

// deliver answers the only caller of a flight, whose charge the store admitted as
// it is.
func (f *flight) deliver(out *limiter.Outcome) {
	w := f.batch[0]
	tokens, spared := f.amounts(&w.charge.Amounts), f.sparedIn(out)

	// The caller has left, so its tokens go back. A limit that was spared gets
	// its usage back alone, since nothing was taken from it.
	if !w.answer(result{outcome: *out}) {
		f.janitor.give(&grant{
			accounts: f.accounts, pots: f.pots, store: f.store, at: f.at, held: tokens, windows: windowsOf(out),
			spared: spared, ended: true,
		})
		return
	}

	for j, n := range tokens {
		// A spared charge took no tokens, so it must not make the pot hold
		// more.
		if !slices.ContainsFunc(f.slots[j].places, func(at place) bool { return slices.Contains(spared, at) }) {
			f.spent[j].add(f.elapsed, f.hold, n)
		}
	}
}

// sparedIn returns the limits that the store spared in an outcome with these
// accounts.
func (a *accounts) sparedIn(out *limiter.Outcome) (places []place) {
	for _, s := range a.slots {
		for _, at := range s.places {
			if isSpared(out.Payers[at.payer], at.limit) {
				places = append(places, at)
			}
		}
	}
	return places
}

func isSpared(b limiter.Bucket, i int) bool {
	list := spared(&b)
	return i < len(list) && list[i]
}

// landSpared answers the caller of a flight whose charge the store admitted as it
// is, and spared a shadow limit. It reports false for every other answer.
func (f *flight) landSpared(out *limiter.Outcome, err error) bool {
	if err != nil || !out.Admitted || !spares(out) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()

	switch {
	// The pot's grants are of other accounts, or of a window that has ended.
	case !f.same(out):
		f.adopt(out)
	case f.stepped(out):
		f.endAll()
	}

	f.see(f.at, out)
	f.deliver(out)
	return true
}
