package rls

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/outlive"
)

// kind says how a descriptor is judged.
type kind int

const (
	unlimited kind = iota // admitted without a charge
	refused               // refused without a charge
	acquire               // charged if it fits
	peek                  // judged without a charge
	settle                // charged, as debt if it does not fit
	giveBack              // gives tokens back
)

// verdict is the answer for a descriptor.
type verdict int

const (
	unjudged verdict = iota
	admitted
	over
)

var errNegativeHits = errors.New("its hits are negative; set give_back: true to allow that")

// call is one descriptor in a transaction.
type call struct {
	kind    kind
	rule    *rule // nil if none matches
	request limiter.Request
	// negative reports that the hits are, and that the rule does not allow it.
	negative bool

	verdict  verdict
	disabled bool // a switch refused it
	decision limiter.Decision
	lease    *limiter.Lease
}

// isLate reports whether the descriptor reports use after the fact.
func (c *call) isLate() bool { return c.kind == settle || c.kind == giveBack }

// judge acquires, peeks, or gives the fixed answer. Envoy's timeout is short, and a
// charge that is cut off may be stored without a lease to roll back. So a charge under
// way outlives ctx by a bounded time.
func (c *call) judge(ctx context.Context, lim *limiter.RateLimiter) (err error) {
	switch c.kind {
	case acquire:
		// A caller that has left would only get its charge rolled back.
		if err := ctx.Err(); err != nil {
			return err
		}

		lingering, cancel := outlive.Context(ctx, outlive.DefaultTime)
		defer cancel()
		if c.lease, err = lim.Acquire(lingering, c.request); err != nil {
			return err
		}

		c.verdict, c.decision = admitted, c.lease.Decision()
	case peek:
		if c.decision, err = lim.Explain(ctx, c.request); err != nil {
			return err
		}
		if c.verdict = admitted; !c.decision.Admitted() {
			c.verdict = over
		}
	case refused:
		if c.verdict = over; c.negative {
			return errNegativeHits
		}
	default:
		c.verdict = admitted
	}

	return nil
}

// adjust charges or gives back without a lease, even if the caller has left. It
// writes nothing if there is nothing to change.
func (c *call) adjust(ctx context.Context, lim *limiter.RateLimiter) (err error) {
	c.verdict, ctx = admitted, context.WithoutCancel(ctx)
	if c.isZero() {
		c.request.Consume = limiter.Amounts{}
		c.decision, err = lim.Explain(ctx, c.request)
	} else {
		c.decision, err = lim.Adjust(ctx, c.request)
	}
	return err
}

func (c *call) isZero() bool {
	for _, n := range c.request.Consume.All() {
		if n != 0 {
			return false
		}
	}
	return true
}
