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
	known bool
	shown int  // payers that the last answer showed
	at    tick // when its request was sent
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
		lack := bucket.Thousandths(max(0, n-p.held[j]))
		for _, at := range p.slots[j].places {
			switch {
			case !p.lacks(at, lack, t.now):
			case enforces(p.limit(at), c):
				return true, false
			// A shadow limit never refuses, but a later limit may.
			default:
				through = true
			}
		}
	}
	return false, through
}

// lacks reports whether the last answer proves that a limit does not cover a number
// of thousandths at now.
func (p *pot) lacks(at place, thousandths, now int64) bool {
	// Nothing is known about an ancestor that the refusal left out. A balance from
	// before a give-back of this process lacks those tokens, so it proves nothing.
	return at.payer < p.refusal.shown && p.balance(at, now) < thousandths && !p.refundedSince(at)
}

// refundedSince reports whether this process gave tokens of a limit back after the
// refused request was sent.
func (p *pot) refundedSince(at place) bool {
	// The time is 0 if it gave none back lately.
	_, last := p.refunded(p.lentKey(at))
	return last >= p.refusal.at.machine && last > 0
}

// refuseLocally returns the outcome of a charge for which refuses has reported a
// refusal.
func (p *pot) refuseLocally(c *limiter.Charge, t tick, claims []int64) limiter.Outcome {
	out := p.outcome(false, t.now)

	// The balances of the other payers stem from an earlier answer, and the store
	// might refuse before it reads them.
	out.Payers = out.Payers[:p.refusal.shown]

	// Callers ahead take what they claim, so the refusal shows how much is
	// missing without it.
	p.deduct(&out, claims)
	return p.withOthers(out, &c.Amounts, p)
}

// deduct takes what other callers claim, by slot, from the balances of a refusal.
func (p *pot) deduct(out *limiter.Outcome, claims []int64) {
	for j, n := range claims {
		for _, at := range p.slots[j].places {
			if at.payer < len(out.Payers) {
				tokens := &out.Payers[at.payer].Tokens[at.limit]
				*tokens = bucket.Sub(*tokens, bucket.Thousandths(n))
			}
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
		later := limiter.Outcome{Payers: laterBuckets(out.Payers, now, t.now), Exempt: out.Exempt}
		// Other defaults may mean other limits, and an unknown limit is an
		// error that the store reports.
		if !slices.Equal(w.charge.Defaults, f.batch[0].charge.Defaults) || !names(later.Payers, &w.charge.Amounts) ||
			covers(&w.charge, later.Payers) {
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
func names(buckets []limiter.Bucket, amounts *limiter.Amounts) bool {
	for name := range amounts.All() {
		if !slices.ContainsFunc(buckets, func(b limiter.Bucket) bool { return hasLimit(b.Account, name) }) {
			return false
		}
	}
	return true
}

func hasLimit(a *limiter.Account, name string) bool {
	return slices.ContainsFunc(a.Limits, func(l limiter.Limit) bool { return l.Name == name })
}
