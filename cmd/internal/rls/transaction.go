package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// transaction judges the descriptors of one call.
type transaction struct {
	lim    *limiter.RateLimiter
	report func(error)
	calls  []call
}

// run acquires in order until a descriptor is refused, and then settles. It charges
// what a stream has used in any case. It gives back only if all descriptors are
// admitted, since Envoy may repeat a refused call, which would give back again. After
// an error nothing that was acquired stays charged.
func (t *transaction) run(ctx context.Context) error {
	err := t.acquire(ctx)

	if late := t.settle(ctx, err == nil && t.refusal() == nil); err == nil {
		err = late
	}

	// Envoy does not wait for the answer any more, and counts the call as failed.
	if err == nil {
		err = ctx.Err()
	}

	if err != nil || t.refusal() != nil {
		t.rollback(ctx)
	}
	return err
}

// acquire judges the descriptors that can be refused, until one is.
func (t *transaction) acquire(ctx context.Context) error {
	for i := range t.calls {
		c := &t.calls[i]
		// Use that was reported after the fact cannot be refused, so that
		// settle charges it.
		if c.isLate() {
			continue
		}

		if err := t.conclude(c, c.judge(ctx, t.lim)); err != nil {
			return err
		}

		if c.verdict == over {
			break
		}
	}
	return nil
}

// settle charges what descriptors report after the fact and, if the rest of the
// call is admitted, gives back. It returns the first error.
func (t *transaction) settle(ctx context.Context, isAdmitted bool) (first error) {
	for i := range t.calls {
		c := &t.calls[i]
		if !c.isLate() || c.kind == giveBack && !isAdmitted {
			continue
		}

		if err := t.conclude(c, c.adjust(ctx, t.lim)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// conclude turns the error of a descriptor into its verdict. Bad input refuses the
// descriptor, unless it reports use after the fact. Every other error is returned.
func (t *transaction) conclude(c *call, err error) error {
	if err == nil {
		return nil
	}

	if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok {
		c.verdict, c.decision = over, refusal.Decision
		return nil
	}

	if _, ok := errors.AsType[*limiter.DisabledError](err); ok {
		c.verdict, c.disabled = over, true
		return nil
	}

	if errors.Is(err, limiter.ErrNoLimits) && c.rule.allowNoLimits {
		c.verdict = admitted
		return nil
	}

	bad, ok := errors.AsType[*limiter.InvalidError](err)
	switch {
	case ok:
		err = describeInvalid(bad)
	case !errors.Is(err, errNegativeHits):
		return err
	}

	// Work that is done cannot be refused.
	if c.verdict = over; c.isLate() {
		c.verdict = admitted
	}

	t.report(fmt.Errorf("a descriptor of line %d of the rules cannot be judged: %w", c.rule.line, err))
	return nil
}

// describeInvalid returns err without its value, which may be a secret.
func describeInvalid(err *limiter.InvalidError) error {
	switch {
	case errors.Is(err, limiter.ErrNoLimits):
		return errors.New("there are no limits for its entity and resource; store some, or set no_limits: allow")
	case err.Field == "entity_id" || err.Field == "resource":
		return fmt.Errorf("invalid %s: %s", err.Field, err.Reason)
	}
	return fmt.Errorf("invalid %s; name limits that the resource has", err.Field)
}

// refusal returns the descriptor that was refused, or nil.
func (t *transaction) refusal() *call {
	for i := range t.calls {
		if t.calls[i].verdict == over {
			return &t.calls[i]
		}
	}
	return nil
}

// rollback gives back what the descriptors acquired. Their statuses show what they
// have left then.
func (t *transaction) rollback(ctx context.Context) {
	var leases sync.WaitGroup
	for i := range t.calls {
		c := &t.calls[i]
		if c.lease == nil {
			continue
		}

		leases.Go(func() {
			if err := c.lease.Rollback(ctx); err != nil {
				t.report(withoutTarget(err))
				return
			}
			c.decision = givenBack(c.decision)
		})
	}
	leases.Wait()
}

// givenBack returns a decision after its amounts were given back.
func givenBack(d limiter.Decision) limiter.Decision {
	all := slices.Clone(d.Statuses)
	for i := range all {
		s := &all[i]
		before := s.Available

		// Giving back stops at the capacity, but takes nothing from a bucket
		// that holds more, such as after its limit was lowered.
		s.Available = min(s.Available+s.Requested, max(s.Available, s.Limit.Capacity))

		if s.Available >= s.Limit.Capacity {
			s.FullAfter = 0
			// At 60 tokens a minute, 10 tokens given back bring a full bucket 10 s
			// nearer. A quota becomes full only at its boundary.
		} else if !s.Limit.IsQuota() {
			s.FullAfter = max(0,
				s.FullAfter-time.Duration(float64(s.Available-before)*float64(s.Limit.Period)/float64(s.Limit.Refill)))
		}
	}

	return limiter.Decision{Statuses: all}
}
