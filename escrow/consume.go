package escrow

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Consume takes every amount, or nothing: from the pot if that covers the charge,
// else from the store, together with other callers of the same bucket.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	// A cancelled call must not take tokens from the pot.
	if err := ctx.Err(); err != nil {
		return limiter.Outcome{}, err
	}

	t := tick{now.UnixMilli(), r.machine()}
	p := r.pots.lock(limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}, true)

	// The pot pays only with tokens whose hold lasts by the clocks of this call.
	p.expire(t)

	// The store judges limits of the call's own by the whole balance, so what
	// the pot holds has to be there.
	if charge.Limits != nil {
		p.mu.Unlock()
		return r.override(ctx, now, charge, p)
	}

	// A fenced pot stays empty while limits, entities or switches change.
	fenced := p.fenced(p)
	if !fenced {
		if out, ok := p.spend(&charge, t); ok {
			p.mu.Unlock()
			return out, nil
		}
	}

	// A late charge passes a level that is disabled, and others do not. So it
	// cannot share a request with them.
	if fenced || charge.Late || !p.serves(&charge) {
		p.mu.Unlock()
		return r.direct(ctx, now, charge)
	}

	// While a request is under way, its answer decides: it is newer than the
	// answer that a refusal would rest on, and may bring tokens.
	if !p.flying {
		switch refused, through := p.refuses(&charge, t, nil); {
		case refused:
			defer p.mu.Unlock()
			return p.refuseLocally(&charge, t, nil), nil
		case through:
			p.mu.Unlock()
			return r.through(ctx, now, charge)
		}
	}

	w := &waiter{
		ctx: ctx, now: now, arrived: t.machine, queued: p.flying, live: isLive(now), charge: charge,
		result: make(chan result, 1),
	}
	p.queue = append(p.queue, w)
	if !p.flying {
		// One flight at a time serves the queue, so that callers who come
		// meanwhile share the next request.
		p.flying = true
		//nolint:contextcheck // a request outlives its callers, and ends with the last of their deadlines
		go p.fly(r.Repository)
	}

	p.mu.Unlock()
	return r.wait(w)
}

// direct sends a charge to the store alone.
func (r *Repository) direct(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	r.requests.Add(1)

	out, err := r.Repository.Consume(ctx, now, charge)

	// The store knows nothing of what other pots hold. These tokens come back
	// soon, so that the caller need not wait for a refill.
	if err == nil && !out.Admitted {
		out = r.pots.withOthers(out, &charge.Amounts, nil)
	}

	// Another process may have disabled the bucket, which closes the pot.
	r.pots.closeDisabled(limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}, err)
	return out, err
}

// override sends a charge with limits of its own to the store, after the pot has
// returned what it holds. The pot stays closed meanwhile.
func (r *Repository) override(
	ctx context.Context, now time.Time, charge limiter.Charge, p *pot,
) (limiter.Outcome, error) {
	// By key and not by pot: during a long wait a sweep may replace this pot by
	// another.
	match := func(other *pot) bool { return other.key == p.key }
	defer r.pots.keepClosed(&fence{match})()

	if err := r.pots.empty(ctx, match, p); err != nil {
		return limiter.Outcome{}, err
	}

	return r.direct(ctx, now, charge)
}

// serves reports whether the pot can serve a charge together with others: it has
// the same defaults, and the accounts, once they are known, have its limits. Only
// the store can answer a charge of nothing.
func (p *pot) serves(c *limiter.Charge) bool {
	if p.payers == nil {
		return true
	}

	// Other defaults may give the bucket other limits.
	if c.Amounts.Len() == 0 || !slices.Equal(p.defaults, c.Defaults) {
		return false
	}

	// The store decides about a limit that the accounts lack: it may be new, or
	// the charge invalid.
	for i := range c.Amounts.Len() {
		if name, _ := c.Amounts.At(i); p.slot(name, i) < 0 {
			return false
		}
	}
	return true
}

// drain waits for the pot's requests and ends its grants, if the pot matches.
func (p *pot) drain(ctx context.Context, match func(*pot) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	// A flight can change the accounts that match depends on, so each wait is
	// followed by another check.
	for p.flying && match(p) {
		if p.landed == nil {
			p.landed = make(chan struct{})
		}
		landed := p.landed

		// The flight needs the lock to land.
		p.mu.Unlock()
		select {
		case <-landed:
		case <-ctx.Done():
		}
		p.mu.Lock()

		if err := ctx.Err(); err != nil {
			return err
		}
	}

	if match(p) {
		p.endAll()
		// The limits that refused are about to change.
		p.refusal = refusal{}
	}
	return nil
}

func (p *pot) endAll() {
	for len(p.grants) > 0 {
		p.end(p.grants[0])
	}
}

// waiter is a caller whose charge waits for a request.
type waiter struct {
	ctx     context.Context //nolint:containedctx // the request outlives its callers, and needs their deadlines
	now     time.Time       // when it arrived, by its own clock
	arrived time.Duration   // the same by the machine's clock
	queued  bool            // it waited for a request that was under way
	live    bool            // its clock is the machine's
	charge  limiter.Charge
	over    atomic.Bool // the result is on its way, or the caller has left
	result  chan result
}

// isLive reports whether a caller's clock agrees with the machine's. A replay
// passes other times, for which the machine's clock means nothing.
func isLive(now time.Time) bool {
	const agreement = 2 * time.Second

	// Stores see the wall time of now. Without Round, Since would compare the
	// monotonic readings instead.
	return time.Since(now.Round(0)).Abs() <= agreement
}

// later returns the time by the caller's clock at a later machine time. A caller
// that found no request under way does not wait: its own time counts, to the
// millisecond.
func (w *waiter) later(machine time.Duration) time.Time {
	if !w.queued || !w.live {
		return w.now
	}
	return w.now.Add(max(0, machine-w.arrived))
}

// tick returns a machine time together with the time by the caller's clock.
func (w *waiter) tick(machine time.Duration) tick { return tick{w.later(machine).UnixMilli(), machine} }

type result struct {
	outcome limiter.Outcome
	err     error
	alone   bool // the charge cannot share a request
	through bool // only shadow limits do not cover the charge
}

// answer delivers a result and reports whether the caller is still there.
func (w *waiter) answer(res result) bool {
	// Either the answer or the end of the caller's context wins. If the context
	// won, the flight puts the tokens back.
	if !w.over.CompareAndSwap(false, true) {
		return false
	}
	w.result <- res
	return true
}

// wait returns the result of a waiter. A caller whose context ends leaves.
func (r *Repository) wait(w *waiter) (limiter.Outcome, error) {
	var res result
	select {
	case res = <-w.result:
	case <-w.ctx.Done():
		// If the flight was faster, it has paid for this caller. The caller
		// then takes the result, since tokens are not returned for it.
		if w.over.CompareAndSwap(false, true) {
			return limiter.Outcome{}, w.ctx.Err()
		}
		res = <-w.result
	}

	switch {
	// The caller has waited, so its charge counts from the present time and not
	// from its arrival.
	case res.alone:
		return r.direct(w.ctx, w.later(r.machine()), w.charge)
	case res.through:
		return r.through(w.ctx, w.later(r.machine()), w.charge)
	}
	return res.outcome, res.err
}
