package escrow

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Credit gives back or takes more. The pot of the same payers keeps or pays what it
// can, and the rest goes to the store.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	// A repository does not change its arguments.
	left := slices.Clone(credits)
	for i := range left {
		r.absorb(now, left, i)
	}

	// A call without any credit still goes to the store, which returns an error
	// once it is closed.
	left = slices.DeleteFunc(left, func(c limiter.Credit) bool { return c.Amounts.Len() == 0 })
	if len(left) == 0 && len(credits) > 0 {
		return nil
	}

	// From here on the store may have these tokens, even if the answer is lost.
	// A pot that still counted them as spent would hold too much.
	r.pots.refunding(left)

	// What was refused while the request was under way may fit once it is done.
	defer r.pots.returnedTo(left)
	return r.Repository.Credit(ctx, now, left...)
}

// absorb settles credit i in the pot of its account, together with the credits of
// the other payers, and leaves the rest in credits.
func (r *Repository) absorb(now time.Time, credits []limiter.Credit, i int) {
	account := credits[i].Account
	if account == nil {
		return
	}

	p := r.pots.lock(limiter.Scope{Entity: account.Entity, Resource: account.Resource}, false)
	if p == nil {
		return
	}
	defer p.mu.Unlock()

	// Another Ref is another bucket, such as one that was deleted and created
	// anew. Tokens of the one are worth nothing in the other. A fenced pot stays
	// empty while limits, entities or switches change.
	if len(p.payers) == 0 || p.payers[0].Ref != account.Ref || p.fenced(p) {
		return
	}

	t := tick{now.UnixMilli(), r.machine()}
	p.expire(t)

	// Without a grant there is no room to keep tokens, nor anything to pay
	// with.
	if len(p.grants) == 0 {
		return
	}

	byPayer := p.creditsOf(credits, i)
	for j := range p.slots {
		p.absorb(j, t.now, byPayer)
	}
}

// creditsOf returns the credit of each payer, nil for a payer without one. The entity
// has credit own.
func (p *pot) creditsOf(credits []limiter.Credit, own int) []*limiter.Credit {
	byPayer := make([]*limiter.Credit, len(p.payers))
	byPayer[0] = &credits[own]
	for k, payer := range p.payers[1:] {
		i := slices.IndexFunc(credits, func(c limiter.Credit) bool {
			return c.Account != nil && c.Account.Ref == payer.Ref
		})
		// Where two payers have one Ref, the search finds the same credit twice,
		// and it cannot stand for both.
		if i >= 0 && !slices.Contains(byPayer, &credits[i]) {
			byPayer[k+1] = &credits[i]
		}
	}
	return byPayer
}

// absorb settles one slot at now, up to the amount that its payers agree on.
// Give-backs to a quota that is nearly empty go to the store: other processes may
// wait for them, and if the quota was lowered below its use, they must not be spent
// at all.
func (p *pot) absorb(j int, now int64, byPayer []*limiter.Credit) {
	s := &p.slots[j]

	var done int64
	switch n := s.agreed(byPayer); {
	case n > 0 && !p.nearEmpty(j, 0, now):
		done = p.deposit(j, n)
	// A late debit is never refused: the store takes what the pot cannot pay,
	// down to a debt.
	case n < 0:
		done = -min(-n, p.held[j])
		p.take(j, -done)
	}
	if done == 0 {
		return
	}

	for _, at := range s.places {
		c := byPayer[at.payer]
		c.Amounts = without(c.Amounts, s.name, done)
	}
}

// agreed returns the amount that the credits of all payers of a slot have, or 0.
func (s *slot) agreed(byPayer []*limiter.Credit) (n int64) {
	for i, at := range s.places {
		c := byPayer[at.payer]

		// A charge that was spared took nothing, so its credit changes usage
		// alone, which the store counts.
		if c == nil || slices.Contains(c.Spared, s.name) {
			return 0
		}

		// A token in the pot stands for one of each payer. If a lease gives back
		// 5 to the child and 3 to the parent, only the store can do both.
		amount := c.Amounts.Get(s.name)
		if i > 0 && amount != n {
			return 0
		}
		n = amount
	}
	return n
}

// without returns amounts less n tokens of a limit. A limit with nothing left is
// not named.
func without(amounts limiter.Amounts, limit string, n int64) (rest limiter.Amounts) {
	for name, tokens := range amounts.All() {
		if name == limit {
			tokens -= n
		}
		if tokens != 0 || name != limit {
			rest = rest.And(name, tokens)
		}
	}
	return rest
}
