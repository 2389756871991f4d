package escrow

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Credit gives back or takes more. The pot of the same accounts keeps or pays what
// it can, and the rest goes to the store.
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

// absorb settles credit i in the pot of its account, together with the credit of
// the parent, and leaves the rest in credits.
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
	if p.self == nil || p.self.Ref != account.Ref || p.fenced(p) {
		return
	}

	t := tick{now.UnixMilli(), r.machine()}
	p.expire(t)

	// Without a grant there is no room to keep tokens, nor anything to pay
	// with.
	if len(p.grants) == 0 {
		return
	}

	// Tokens of a cascade were taken from both buckets. The pot can settle them
	// only if the parent gets the same credit.
	parent := -1
	if p.parent != nil {
		parent = slices.IndexFunc(credits, func(c limiter.Credit) bool {
			return c.Account != nil && c.Account.Ref == p.parent.Ref
		})
		// Where both accounts have one Ref, the search may find credit i itself,
		// which cannot stand for both.
		if parent < 0 || parent == i {
			return
		}
	}

	for j := range p.slots {
		// A charge that was spared took nothing, so its credit changes usage
		// alone, which the store counts.
		if name := p.slots[j].name; !slices.Contains(credits[i].Spared, name) && (parent < 0 ||
			!slices.Contains(credits[parent].Spared, name)) {
			p.absorb(j, t.now, &credits[i].Amounts, parentAmounts(credits, parent))
		}
	}
}

func parentAmounts(credits []limiter.Credit, parent int) *limiter.Amounts {
	if parent < 0 {
		return nil
	}
	return &credits[parent].Amounts
}

// absorb settles one slot at now. The accounts that have the limit must agree on the
// amount. Give-backs to a quota that is nearly empty go to the store: other
// processes may wait for them, and if the quota was lowered below its use, they
// must not be spent at all.
func (p *pot) absorb(j int, now int64, self, parent *limiter.Amounts) {
	s := &p.slots[j]
	var n int64
	if s.self >= 0 {
		n = self.Get(s.name)
		// A token in the pot stands for one in each account. If a lease gives
		// back 5 to the child and 3 to the parent, only the store can do both.
		if s.parent >= 0 && parent.Get(s.name) != n {
			return
		}
	} else {
		n = parent.Get(s.name)
	}

	var done int64
	switch {
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

	if s.self >= 0 {
		*self = without(*self, s.name, done)
	}
	if s.parent >= 0 {
		*parent = without(*parent, s.name, done)
	}
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
