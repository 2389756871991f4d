package repotest

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// verdict is what a limiter tells its caller about a request.
type verdict struct {
	Admitted bool
	Decision limiter.Decision
}

// explainThenAcquire checks that looking and taking agree: in what a limiter on
// each repository tells its caller, and in what the repository told the limiter,
// which is more exact. Where either call fails by plan there is nothing to
// compare, but what was taken is taken.
func (h *history) explainThenAcquire() {
	now, charge := h.clock(), h.charge()
	h.note("%s Explain %s", stamp(now), noted(charge))
	said, sayErr := both(h, "Explain", func(_ int, repo limiter.Repository) (verdict, error) {
		return h.explain(repo, now, charge)
	})
	looked := h.fault == None
	if h.fault != Before {
		truthOf(h, "what Peek said", charge, h.saw[0].peek, h.saw[1].peek)
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
	same(h, "Explain, then Acquire (not two repositories)", [2]verdict{said[0], did[0]}, [2]error{sayErr, doErr})
	truthOf(h, "Peek, then Consume (not two repositories)", charge, h.saw[0].peek, h.saw[0].consume)
}

// explain is what a limiter says that it would do.
func (h *history) explain(repo limiter.Repository, now time.Time, charge limiter.Charge) (verdict, error) {
	d, err := h.limiter(repo, func() time.Time { return now }, charge).Explain(h.ctx, requestOf(charge))
	if err != nil {
		return verdict{}, err
	}
	return verdict{d.Admitted(), d}, nil
}

// acquire is what a limiter does. A refusal is no error here.
func (h *history) acquire(repo limiter.Repository, now time.Time, charge limiter.Charge) (verdict, error) {
	v, _, err := h.acquireLease(repo, func() time.Time { return now }, charge)
	return v, err
}

// acquireLease returns what a limiter does, and its lease if it admits.
func (h *history) acquireLease(repo limiter.Repository, now func() time.Time, charge limiter.Charge) (verdict, *limiter.Lease, error) {
	lease, err := h.limiter(repo, now, charge).Acquire(h.ctx, requestOf(charge))
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

// requestOf is the request that leads to a charge. An outage is an error, not a
// lease.
func requestOf(c limiter.Charge) limiter.Request {
	return limiter.Request{Entity: c.Entity, Resource: c.Resource, Consume: c.Amounts, Limits: c.Limits, OnUnavailable: limiter.Block}
}
