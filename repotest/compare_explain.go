package repotest

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// verdict is a limiter's answer to a request.
type verdict struct {
	Admitted bool
	Decision limiter.Decision
}

// explainThenAcquire checks that Explain and Acquire agree, in the answers of
// a limiter on each repository and in the more exact outcomes of the
// repository. If either call fails as planned, it compares nothing, but
// records the tokens taken.
func (h *history) explainThenAcquire() {
	now, charge := h.clock(), h.charge()

	h.note("%s Explain %s", stamp(now), noted(charge))
	said, sayErr := both(h, "Explain", func(_ int, repo limiter.Repository) (verdict, error) {
		return h.explain(repo, now, charge)
	})

	// The next call has a fault of its own.
	looked := h.fault == None

	if h.fault != Before {
		checkObserved(h, "what Peek said", charge, h.observed[0].peek, h.observed[1].peek)
	}

	h.note("%s Acquire %s", stamp(now), noted(charge))
	did, doErr := both(h, "Acquire", func(_ int, repo limiter.Repository) (verdict, error) {
		return h.acquire(repo, now, charge)
	})

	took := h.fault == None
	h.leases = append(h.leases, h.consumed(now, charge, doErr)...)

	if !looked || !took {
		return
	}

	// The repositories agree with each other, so one of them suffices.
	compareAnswers(h, "Explain, then Acquire (not two repositories)", [2]verdict{said[0], did[0]},
		[2]error{sayErr, doErr})
	checkObserved(h, "Peek, then Consume (not two repositories)", charge, h.observed[0].peek, h.observed[0].consume)
}

// explain returns the decision that a limiter predicts.
func (h *history) explain(repo limiter.Repository, now time.Time, charge limiter.Charge) (verdict, error) {
	d, err := h.limiter(repo, func() time.Time { return now }, charge).Explain(h.ctx, chargeRequest(charge))
	if err != nil {
		return verdict{}, err
	}
	return verdict{d.Admitted(), d}, nil
}

// acquire returns the decision of a limiter. A refusal is not an error here.
func (h *history) acquire(repo limiter.Repository, now time.Time, charge limiter.Charge) (verdict, error) {
	v, _, err := h.acquireLease(repo, func() time.Time { return now }, charge)
	return v, err
}

// acquireLease returns the decision of a limiter, and its lease if it admits.
func (h *history) acquireLease(
	repo limiter.Repository, now func() time.Time, charge limiter.Charge,
) (verdict, *limiter.Lease, error) {
	lease, err := h.limiter(repo, now, charge).Acquire(h.ctx, chargeRequest(charge))

	if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok {
		return verdict{false, refusal.Decision}, nil, nil
	}

	if err != nil {
		return verdict{}, nil, err
	}
	return verdict{true, lease.Decision()}, lease, nil
}

// limiter returns a limiter with the clock now and the defaults of a charge.
func (h *history) limiter(repo limiter.Repository, now func() time.Time, charge limiter.Charge) *limiter.RateLimiter {
	lim, err := limiter.New(repo, &limiter.Options{Now: now, Limits: charge.Defaults})
	if err != nil {
		h.fail("New: %v", err)
	}
	return lim
}

// chargeRequest returns the request that leads to a charge. It fails in an outage, so
// that no lease is admitted without a charge.
func chargeRequest(c limiter.Charge) limiter.Request {
	return limiter.Request{
		Entity: c.Entity, Resource: c.Resource, Consume: c.Amounts, Limits: c.Limits,
		OnUnavailable: limiter.Block,
	}
}
