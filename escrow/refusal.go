package escrow

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// refusal remembers that a bucket refused a request. From then on, the image of
// each answer refuses for a hold what it does not cover, so that an empty bucket
// costs few requests.
type refusal struct {
	known  bool
	parent bool // the last answer showed the parent
	at     tick // when its request was sent
}

// refuses reports whether the last answer proves that a limit does not cover what
// the pot lacks for a charge, after the claims of earlier callers by slot. If only
// shadow limits lack tokens, the charge has to go through to the store. The caller
// has called expire.
func (p *pot) refuses(c *limiter.Charge, t tick, claims []int64) (refused, through bool) {
	// Other processes may give tokens back, so the store is asked again after a
	// hold.
	r := &p.refusal
	if !r.known || !t.within(p.hold, r.at) {
		return false, false
	}

	for i := range c.Amounts.Len() {
		name, n := c.Amounts.At(i)
		j := p.slot(name, i)
		// claims is what callers ahead in the queue are about to take.
		if claims != nil {
			n = bucket.Add(n, claims[j])
		}

		// The pot pays what it holds, so the bucket has to cover only the rest.
		s, lack := &p.slots[j], bucket.Thousandths(max(0, n-p.held[j]))
		for _, l := range [2]*limiter.Limit{
			p.lacking(false, s.self, lack, t.now), p.lacking(true, s.parent, lack, t.now),
		} {
			switch {
			case l == nil:
			case enforces(l, c):
				return true, false
			// A shadow limit never refuses, but a later limit may.
			default:
				through = true
			}
		}
	}
	return false, through
}

// lacking returns limit i of an account if the last answer proves that it does not
// cover a number of thousandths at now, or nil.
func (p *pot) lacking(parent bool, i int, lack, now int64) *limiter.Limit {
	account, found := p.self, &p.image.self
	if parent {
		account, found = p.parent, &p.image.parent
	}

	// Nothing is known about a parent that the refusal left out.
	if i < 0 || parent && !p.refusal.parent {
		return nil
	}

	// A balance from before a give-back of this process lacks those tokens, so
	// it proves nothing.
	l := &account.Limits[i]
	if found.advanced(i, *l, now) >= lack || p.refundedSince(parent, l.Name) {
		return nil
	}
	return l
}

// refundedSince reports whether this process gave tokens of a limit back after the
// refused request was sent.
func (p *pot) refundedSince(parent bool, limit string) bool {
	// The time is 0 if it gave none back lately.
	_, at := p.refunded(p.lentKey(parent, limit))
	return at >= p.refusal.at.machine && at > 0
}

// refuseLocally returns the outcome of a charge for which refuses has reported a
// refusal.
func (p *pot) refuseLocally(c *limiter.Charge, t tick, claims []int64) limiter.Outcome {
	out := p.outcome(false, t.now)

	// The balance of the parent stems from an earlier answer, and the store
	// might refuse before it reads the parent.
	if !p.refusal.parent {
		out.Parent = limiter.Bucket{}
	}

	// Callers ahead take what they claim, so the refusal shows how much is
	// missing without it.
	p.deduct(&out, claims)
	return p.withOthers(out, &c.Amounts, p)
}

// deduct takes what other callers claim, by slot, from the balances of a refusal.
func (p *pot) deduct(out *limiter.Outcome, claims []int64) {
	for j, n := range claims {
		if i := p.slots[j].self; i >= 0 {
			out.Self.Tokens[i] = bucket.Sub(out.Self.Tokens[i], bucket.Thousandths(n))
		}
		if i := p.slots[j].parent; i >= 0 && out.Parent.Account != nil {
			out.Parent.Tokens[i] = bucket.Sub(out.Parent.Tokens[i], bucket.Thousandths(n))
		}
	}
}

// refuseQueue answers callers in the queue after an unknown bucket refused the first
// charge at now: those whose charge it does not cover either. The others may fit and
// stay in the queue.
func (f *flight) refuseQueue(now int64, out *limiter.Outcome) {
	machine := f.machine()
	f.queue = slices.DeleteFunc(f.queue, func(w *waiter) bool {
		// The balances are moved to each caller's own time, so that each is
		// judged as the store would judge it.
		t := w.tick(machine)
		later := limiter.Outcome{Self: laterBucket(&out.Self, now, t.now), Parent: laterBucket(&out.Parent, now, t.now)}
		// Other defaults may mean other limits, and an unknown limit is an
		// error that the store reports.
		if !slices.Equal(w.charge.Defaults, f.batch[0].charge.Defaults) || !names(&later, &w.charge.Amounts) ||
			covers(&w.charge, &later.Self, &later.Parent) {
			return false
		}

		w.answer(result{outcome: f.withOthers(later, &w.charge.Amounts, f.pot)})
		return true
	})
}

// failQueue answers the callers in the queue with the error of the first charge of
// an unknown bucket, as if they had shared that request. An error about the charge
// itself, or the end of its caller's context, says nothing about the others.
func (f *flight) failQueue(ctx context.Context, err error) {
	if _, invalid := errors.AsType[*limiter.InvalidError](err); invalid || ctx.Err() != nil {
		return
	}

	f.queue = slices.DeleteFunc(f.queue, func(w *waiter) bool {
		// A caller with other defaults could not have shared the request.
		if !slices.Equal(w.charge.Defaults, f.batch[0].charge.Defaults) {
			return false
		}
		w.answer(result{err: err})
		return true
	})
}

// names reports whether each amount is of a limit of the buckets.
func names(out *limiter.Outcome, amounts *limiter.Amounts) bool {
	for name := range amounts.All() {
		if !hasLimit(out.Self.Account, name) && !hasLimit(out.Parent.Account, name) {
			return false
		}
	}
	return true
}

func hasLimit(a *limiter.Account, name string) bool {
	return a != nil && slices.ContainsFunc(a.Limits, func(l limiter.Limit) bool { return l.Name == name })
}
