package escrow

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Credit gives back or takes more. What the pot of the same accounts can keep or
// pay, it does; the rest goes to the store.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := slices.Clone(credits)
	for i := range left {
		r.absorb(now, left, i)
	}
	left = slices.DeleteFunc(left, func(c limiter.Credit) bool { return c.Amounts.Len() == 0 })
	if len(left) == 0 && len(credits) > 0 {
		return nil
	}
	r.pots.refunding(left)
	defer r.pots.returnedTo(left) // what was refused meanwhile may fit now
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
	if p.self == nil || p.self.Ref != account.Ref || p.fenced(p) {
		return
	}
	t := tick{now.UnixMilli(), r.machine()}
	p.expire(t)
	if len(p.grants) == 0 {
		return
	}
	parent := -1
	if p.parent != nil {
		parent = slices.IndexFunc(credits, func(c limiter.Credit) bool {
			return c.Account != nil && c.Account.Ref == p.parent.Ref
		})
		if parent < 0 || parent == i {
			return
		}
	}
	for j := range p.slots {
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
// amount. What belongs to a quota that is nearly empty goes to the store: others may
// wait for it, and a quota that was lowered below its use must not be spent.
func (p *pot) absorb(j int, now int64, self, parent *limiter.Amounts) {
	s := &p.slots[j]
	var n int64
	if s.self >= 0 {
		n = self.Get(s.name)
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
