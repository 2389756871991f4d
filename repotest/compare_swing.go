package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// swing lets the limits of one bucket go back and forth while leases on it are open. A
// level stores the limits, or the calls carry them. In between the bucket is charged, and
// left alone for long enough to fill or to expire.
func (h *history) swing() {
	bucket := h.charge()

	shapes, turn := h.shapes(), h.turn(bucket)
	for range 3 + h.rng.IntN(4) {
		h.carry(&bucket, turn, pick(h.rng, shapes))

		if h.chance(2) {
			h.holdCharge(h.clock(), h.large(bucket))
		}

		for range 1 + h.rng.IntN(3) {
			h.consumeAt(h.clock(), h.large(bucket))
			h.useLeaseOf(bucket)
		}

		h.idle()
	}
}

// turn is a way in which a call gets its limits.
type turn struct {
	scope               limiter.Scope
	defaults, overrides bool
}

// turn returns a random way. The defaults of programs apply where no level holds limits.
func (h *history) turn(bucket limiter.Charge) turn {
	switch n := h.rng.IntN(8); {
	case n < 2:
		for _, s := range limiter.Precedence(bucket.Entity, bucket.Resource) {
			h.deleteConfigAt(h.clock(), s)
		}
		return turn{defaults: true}

	case n == 2 && h.overrides:
		return turn{overrides: true}
	case n == 3:
		return turn{scope: pick(h.rng, []limiter.Scope{{}, {Resource: bucket.Resource}})}
	}
	return turn{scope: limiter.Scope{Entity: bucket.Entity, Resource: pick(h.rng, []string{"", bucket.Resource})}}
}

// carry gives a bucket other limits, or makes its calls carry them. At times it deletes
// the level, so that the next one applies.
func (h *history) carry(bucket *limiter.Charge, by turn, limits []limiter.Limit) {
	bucket.Limits, bucket.Defaults = nil, nil

	switch {
	case by.defaults:
		bucket.Defaults = limits
	case by.overrides:
		bucket.Limits = limits
	case h.chance(6):
		h.deleteConfigAt(h.clock(), by.scope)
	default:
		h.putConfig(h.clock(), limiter.Config{Scope: by.scope, Limits: limits})
	}
}

// shapes returns two or three sets of limits that differ in one limit: in its capacity,
// its window or its pace, or in whether they have it.
func (h *history) shapes() (shapes [][]limiter.Limit) {
	first := h.limitsOf(someLimits)

	for i := range first {
		first[i].IsShadow = h.chance(20)
	}

	i, what := h.rng.IntN(len(first)), h.rng.IntN(4)
	// A change of capacity moves the tokens of a quota. Those of a rate are
	// only clamped.
	if what == 0 {
		first[i] = h.quota(first[i].Name)
	}

	shapes = append(shapes, first)
	for range 1 + h.rng.IntN(2) {
		next := slices.Clone(first)
		switch l := &next[i]; what {
		case 0:
			l.Capacity = max(1, l.Capacity*pick(h.rng, []int64{1, 1, 3, 4, 6, 8})/4)
		case 1:
			*l = h.quota(l.Name)
		case 2:
			*l = h.rate(l.Name)
		default:
			next = slices.Delete(next, i, i+1)
		}
		shapes = append(shapes, next)
	}
	return shapes
}

// large returns a charge of a bucket for large parts of its limits.
func (h *history) large(bucket limiter.Charge) limiter.Charge {
	bucket.Amounts = limiter.Amounts{}
	for _, i := range h.rng.Perm(len(someLimits))[:1+h.rng.IntN(2)] {
		bucket.Amounts = bucket.Amounts.And(someLimits[i], h.rng.Int64N(pick(h.rng, []int64{5, 30, 60})))
	}
	return bucket
}

// useLeaseOf makes a call of a lease that is held on a bucket, if there is one.
func (h *history) useLeaseOf(bucket limiter.Charge) {
	for _, i := range h.rng.Perm(len(h.held)) {
		of := h.held[i].parts[0].accounts[0]

		if h.held[i].in == h.where && of.Entity == bucket.Entity && of.Resource == bucket.Resource {
			h.useLeaseAt(i)
			return
		}
	}
}

// idle pauses for long enough that some buckets fill, and some expire.
func (h *history) idle() {
	pause := pick(h.rng, []time.Duration{
		0, 0, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, 2 * time.Hour, 30 * time.Hour,
		9 * day, 40 * day,
	})

	if pause += time.Duration(h.rng.Int64N(int64(pause/4 + 1))); !h.tooLate(h.now.Add(pause)) {
		h.now = h.now.Add(pause)
	}
}

// adjust records use that no lease holds, or gives some back.
func (h *history) adjust() {
	h.leaseNow = h.clock()

	bucket := h.charge()
	bucket.Strict = true // as a limiter sends it

	var amounts limiter.Amounts
	for limit, n := range bucket.Amounts.All() {
		if n -= h.rng.Int64N(20); n != 0 {
			amounts = amounts.And(limit, n)
		}
	}

	if amounts.Len() == 0 {
		return
	}

	h.note("%s Adjust %s by %s", stamp(h.leaseNow), noted(bucket), amounts)
	_, _ = both(h, "Adjust", func(_ int, repo limiter.Repository) (limiter.Decision, error) {
		req := chargeRequest(bucket)
		req.Consume = amounts
		return h.limiter(repo, func() time.Time { return h.leaseNow }, bucket).Adjust(h.ctx, req)
	})

	h.replay(h.leaseNow)
}

// replay enters the calls of both repositories that one call of a limiter has made.
func (h *history) replay(now time.Time) {
	first, second := h.observed[0].calls, h.observed[1].calls
	if len(first) != len(second) {
		h.fail("the first repository got %d calls, the second %d", len(first), len(second))
	}

	var parts []*lease
	for i, c := range first {
		// Adjust charges what fits. It credits the rest to the accounts that an
		// earlier charge of the same call has returned.
		for _, credit := range c.credits {
			at := slices.IndexFunc(parts, func(l *lease) bool { return l.accounts[0] == credit.Account })

			if at < 0 {
				h.fail("a credit to an account of %s and %s that no charge returned", credit.Account.Entity,
					credit.Account.Resource)
			}

			h.oracle.credit(h, parts[at], now, credit.Amounts, credit.Spared)
		}

		if c.credits != nil {
			continue
		}

		done := checkObserved(h, "what Consume did", c.charge, c.result, second[i].result)
		parts = append(parts, h.entered(now, c.charge, done, c.result, second[i].result)...)
	}
}
