package repotest

import (
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func (e *endurance) consume() {
	e.Helper()
	client, now := e.client()

	c := limiter.Charge{
		Entity:   pick(e.rng, []string{"alice", "bob", "carol", "key-1", "key-2", "key-3", "team"}),
		Resource: pick(e.rng, someResources),
	}

	for _, i := range e.rng.Perm(len(someLimits))[:1+e.rng.IntN(2)] {
		c.Amounts = c.Amounts.And(someLimits[i], e.rng.Int64N(8))
	}

	if e.busy != nil {
		e.busy.aim(&c)
	} else {
		e.aim(&c)
	}

	drops := maps.Clone(e.drops)

	var out limiter.Outcome
	var err error
	e.call(func() { out, err = client.Consume(e.ctx, now, c) })
	e.note("%s Consume %s %s %s: %v %v", stamp(now), c.Entity, c.Resource, c.Amounts, out.Admitted, err)

	e.checkSwitch(c, err)
	if err != nil {
		e.forgetBalances(c.Entity, c.Resource)
		// Its ancestors may have been charged too.
		e.forgetBalances("team", c.Resource)
		e.forgetBalances("org", c.Resource)
		return
	}

	var payers []payer
	for _, b := range out.Payers {
		e.checkBalances(now.UnixMilli(), b, c.Amounts, out.Admitted)
		if out.Admitted {
			e.checkAdmission(now.UnixMilli(), b, c.Amounts)
			payers = append(payers, payer{b.Account, sparedOf(b)})
		}
	}

	e.lease(heldCharge{client, payers, c.Amounts, drops})

	// One of them may have been charged, and its give-back may have failed.
	if !out.Admitted && len(out.Payers) > 1 {
		for _, b := range out.Payers {
			e.forgetBalances(b.Account.Entity, c.Resource)
		}
	}
}

// lease keeps a charge to give it back later, in one call for all accounts in a
// busy history.
func (e *endurance) lease(c heldCharge) {
	if e.busy != nil && len(c.payers) > 0 && !e.chance(4) {
		e.leases = append(e.leases, c)
		return
	}

	for _, p := range c.payers {
		e.leases = append(e.leases, heldCharge{c.client, []payer{p}, c.left, c.drops})
	}
}

// credit gives back a charge: in part, more than all of it, or as a whole. A
// failed call may have given tokens back, and may not have taken any.
func (e *endurance) credit() {
	i := e.rng.IntN(len(e.leases))

	l := e.leases[i]
	e.leases = slices.Delete(e.leases, i, i+1)

	now, undo := e.clock(l.client), e.chance(3)
	var amounts limiter.Amounts

	for limit, n := range l.left.All() {
		switch {
		case undo:
			amounts = amounts.And(limit, n)
		case e.chance(2):
			amounts = amounts.And(limit, e.rng.Int64N(n+1))
		default:
			amounts = amounts.And(limit, -e.rng.Int64N(2*n+2))
		}
	}

	var credits []limiter.Credit
	for _, p := range l.payers {
		credits = append(credits, limiter.Credit{Account: p.Account, Amounts: amounts, Undo: undo, Spared: p.spared})
		for limit, n := range amounts.All() {
			// Others may spend the tokens before the call returns.
			e.expectCredit(now, p, limit, max(n, 0))
		}
	}

	var err error
	e.call(func() { err = l.client.Credit(e.ctx, now, credits...) })

	for _, p := range l.payers {
		e.note("%s Credit %s %s %s undo=%v spared %v: %v", stamp(now), p.Entity, p.Resource, amounts, undo,
			p.spared, err)
		if err != nil {
			e.forgetBalances(p.Entity, p.Resource)
			continue
		}

		e.bookCredit(now, l, p, amounts)
	}
}

// expectCredit books tokens that a credit may give back.
func (e *endurance) expectCredit(now time.Time, p payer, limit string, n int64) {
	b := e.book(now.UnixMilli(), p.Account, limit)
	// Of a limit that was spared, a credit changes the usage alone.
	if slices.Contains(p.spared, limit) {
		b.least -= n
		return
	}

	b.give(n, e.holds(), e.ratesOf(b, limit))
	e.giveWindow(b, limit, now.UnixMilli(), func(limiter.Limit) int64 { return n }, false)
}

// bookCredit books a credit of a lease that was surely applied.
func (e *endurance) bookCredit(now time.Time, l heldCharge, p payer, amounts limiter.Amounts) {
	for limit, n := range amounts.All() {
		b := e.book(now.UnixMilli(), p.Account, limit)
		if slices.Contains(p.spared, limit) {
			// A limit that was dropped in between begins a new total.
			if e.drops[limit] == l.drops[limit] {
				b.least += max(-n, 0)
			}
			continue
		}

		// A take ends the floor until the next admission.
		b.floorKnown = b.floorKnown && n >= 0

		switch {
		// Only the store knows in which order the calls took effect.
		case n > 0 && (e.calling || e.overlapped):
			e.later = append(e.later, func() { b.meter.known = false })
		// If the limit was dropped since, the bucket may have lacked it.
		case e.drops[limit] == l.drops[limit]:
			e.later = append(e.later, func() { b.take(max(-n, 0), e.busy != nil, e.ratesOf(b, limit)) })
		}
	}
}
