package repotest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// maxHeld is the number of leases that a comparison holds at one time.
const maxHeld = 20

// heldLease is one lease of a limiter on each repository, with the payments of
// its accounts.
type heldLease struct {
	in     *pair
	both   [2]*limiter.Lease
	limits []limiter.Limit // the override
	parts  []*lease        // in the order of the charges
	paid   map[payment]int64
}

// payment identifies one limit of one bucket, by the first repository's
// handle.
type payment struct {
	entity, resource string
	ref              any
	limit            string
	spared           bool // its balance did not change
}

func paymentOf(a *limiter.Account, limit string, spared []string) payment {
	return payment{a.Entity, a.Resource, a.Ref, limit, slices.Contains(spared, limit)}
}

// hold acquires a lease and keeps it while parents, limits and buckets change.
func (h *history) hold() { h.holdCharge(h.clock(), h.charge()) }

func (h *history) holdCharge(now time.Time, charge limiter.Charge) {
	h.leaseNow = now
	h.note("%s Acquire and hold %s", stamp(now), noted(charge))

	l := &heldLease{in: h.where, limits: charge.Limits, paid: map[payment]int64{}}
	// Each side has a limiter of its own, which reads leaseNow again in every
	// later call of the lease.
	_, err := both(h, "Acquire", func(side int, repo limiter.Repository) (v verdict, err error) {
		v, l.both[side], err = h.acquireLease(repo, func() time.Time { return h.leaseNow }, charge)
		return v, err
	})

	l.add(h.consumed(now, charge, err))
	if l.both[0] != nil && len(h.held) < maxHeld {
		h.held = append(h.held, l)
	}
}

// useLease makes one call of a held lease on both sides.
func (h *history) useLease() {
	if len(h.held) == 0 {
		return
	}
	h.useLeaseAt(h.rng.IntN(len(h.held)))
}

func (h *history) useLeaseAt(i int) {
	l := h.held[i]

	h.where, h.leaseNow = l.in, h.clock()

	switch h.rng.IntN(9) {
	case 0, 1, 2:
		h.consumeMore(l)
	case 3, 4:
		h.adjustLease(l)
	case 5:
		h.settleLease(l, "Flush", (*limiter.Lease).Flush)
	case 6:
		h.settleLease(l, "Commit", (*limiter.Lease).Commit)
		h.held = slices.Delete(h.held, i, i+1)
	case 7:
		h.useOf(l)
	case 8:
		h.settleLease(l, "Rollback", (*limiter.Lease).Rollback)
		h.held = slices.Delete(h.held, i, i+1)
	}
}

// consumeMore charges more under a lease.
func (h *history) consumeMore(l *heldLease) {
	account := l.parts[0].accounts[0]
	charge := h.chargeOf(account.Entity, account.Resource)

	charge.Limits = l.limits
	h.note("%s Lease.Consume %s", stamp(h.leaseNow), noted(charge))
	_, err := both(h, "Lease.Consume", func(side int, _ limiter.Repository) (bool, error) {
		return refused(l.both[side].Consume(h.ctx, charge.Amounts))
	})

	l.add(h.consumed(h.leaseNow, charge, err))
}

// adjustLease adjusts a lease, at times by more than it holds.
func (h *history) adjustLease(l *heldLease) {
	var amounts limiter.Amounts
	for _, i := range h.rng.Perm(len(someLimits))[:1+h.rng.IntN(2)] {
		amounts = amounts.And(someLimits[i], h.rng.Int64N(24)-12)
	}

	h.note("%s Lease.Adjust %s", stamp(h.leaseNow), amounts)
	_, _ = both(h, "Lease.Adjust", func(side int, _ limiter.Repository) (limiter.Amounts, error) {
		err := l.both[side].Adjust(amounts)
		return l.both[side].Consumed(), err
	})
}

// useOf sets what a lease has used in the end.
func (h *history) useOf(l *heldLease) {
	limit, n := pick(h.rng, someLimits), h.rng.Int64N(70)
	h.note("%s Lease.Used %s %d", stamp(h.leaseNow), limit, n)
	_, _ = both(h, "Lease.Used", func(side int, _ limiter.Repository) (limiter.Amounts, error) {
		err := l.both[side].Used(limit, n)
		return l.both[side].Consumed(), err
	})
}

// settleLease stores the adjustments. No account may get back more than it
// paid.
func (h *history) settleLease(l *heldLease, what string, call func(*limiter.Lease, context.Context) error) {
	h.note("%s Lease.%s", stamp(h.leaseNow), what)
	// A settlement without adjustments makes no call, and the credits of an
	// earlier one must not count again.
	h.observed[0].credits = nil
	_, err := both(h, "Lease."+what, func(side int, _ limiter.Repository) (limiter.Amounts, error) {
		err := call(l.both[side], h.ctx)
		return l.both[side].Consumed(), err
	})

	// A lost answer stands for a settlement that was executed.
	if err != nil && h.fault != After {
		return
	}

	for _, c := range h.observed[0].credits {
		h.credited(l, c)
	}
}

// credited records one credit of a settlement.
func (h *history) credited(l *heldLease, c limiter.Credit) {
	for limit, n := range c.Amounts.All() {
		p := paymentOf(c.Account, limit, c.Spared)
		// A credit that takes more, with a negative amount, adds to what was
		// paid. Only a give-back can exceed it.
		if l.paid[p] -= n; n > 0 && l.paid[p] < 0 {
			h.fail("%s of %s and %s gets back %d tokens more than it paid under the lease", limit, c.Account.Entity,
				c.Account.Resource, -l.paid[p])
		}
	}

	i := slices.IndexFunc(l.parts, func(part *lease) bool { return part.accounts[0] == c.Account })
	if i < 0 {
		h.fail("a settlement credits an account of %s and %s that no charge of the lease returned",
			c.Account.Entity, c.Account.Resource)
	}

	if part := l.parts[i]; !part.gone {
		h.oracle.credit(h, part, h.leaseNow, c.Amounts, c.Spared)
	}
}

// add adds the payments of a charge.
func (l *heldLease) add(parts []*lease) {
	for _, part := range parts {
		l.parts = append(l.parts, part)
		for limit, n := range part.amounts.All() {
			account := part.accounts[0]
			// An account pays the amounts for which it has a limit.
			if slices.ContainsFunc(account.Limits, func(has limiter.Limit) bool { return has.Name == limit }) {
				l.paid[paymentOf(account, limit, part.spared)] += n
			}
		}
	}
}

// refused converts a refusal to an answer.
func refused(err error) (admitted bool, _ error) {
	if _, ok := errors.AsType[*limiter.ExceededError](err); ok {
		return false, nil
	}
	return err == nil, err
}
