package repotest

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// limits returns one to three random limits.
func (h *history) limits() []limiter.Limit {
	var names []string
	for _, i := range h.rng.Perm(len(someLimits))[:1+h.rng.IntN(len(someLimits))] {
		names = append(names, someLimits[i])
	}
	return h.limitsOf(names)
}

// limitsOf returns random limits with the given names.
func (h *history) limitsOf(names []string) []limiter.Limit {
	var limits []limiter.Limit
	for _, name := range names {
		limits = append(limits, h.limit(name))
	}

	slices.SortFunc(limits, func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
	return limits
}

// limit returns a random limit: a rate or a quota, a shadow limit at times. It is
// small, so that refusals are common, and a rate does not divide evenly.
func (h *history) limit(name string) limiter.Limit {
	l := h.rate(name)

	if h.chance(3) {
		l = h.quota(name)
	}
	l.IsShadow = h.chance(5)

	return l
}

func (h *history) rate(name string) limiter.Limit {
	period := pick(h.rng, []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour})
	return limiter.Custom(name, 1+h.rng.Int64N(60), 1+h.rng.Int64N(60), period)
}

func (h *history) quota(name string) limiter.Limit {
	w := pick(h.rng, someWindows)
	return limiter.Quota(name, 1+h.rng.Int64N(60), w.every).In(w.zone)
}

// vary returns a limit that differs from l in one respect, or in all.
func (h *history) vary(l limiter.Limit) limiter.Limit {
	switch h.rng.IntN(4) {
	case 0:
		l.IsShadow = !l.IsShadow
	case 1:
		l.Capacity = 1 + h.rng.Int64N(60)
	case 2:
		if other := h.quota(l.Name); l.IsQuota() { // another window or zone
			l.Window, l.Zone = other.Window, other.Zone
		} else {
			l.Refill = 1 + h.rng.Int64N(60)
		}
	default:
		l = h.limit(l.Name)
	}
	return l
}

// varyLimits returns the limits of a scope with one of them varied or one added,
// taken from others. A bucket then keeps most of its state.
func (h *history) varyLimits(s limiter.Scope, others []limiter.Limit) []limiter.Limit {
	// The read for the history is no call of it, so it does not fail.
	h.fault = None
	cfg, err := h.where.repos[0].Config(h.ctx, s)
	if err != nil || len(cfg.Limits) == 0 {
		return others
	}

	other := pick(h.rng, others)
	at, found := slices.BinarySearchFunc(cfg.Limits, other.Name, func(l limiter.Limit, name string) int {
		return strings.Compare(l.Name, name)
	})

	if !found {
		return slices.Insert(cfg.Limits, at, other)
	}

	cfg.Limits[at] = h.vary(cfg.Limits[at])
	return cfg.Limits
}

// shapeBefore returns limits without the one at an index, which joins later, or with
// another in its place, often of the same capacity.
func (h *history) shapeBefore(after []limiter.Limit, at int) []limiter.Limit {
	before := slices.Clone(after)

	switch {
	case h.chance(2):
		return slices.Delete(before, at, at+1)
	case before[at].IsQuota() || h.chance(3):
		before[at] = h.vary(before[at])
	default:
		before[at].Refill = 1 + h.rng.Int64N(60)
	}
	return before
}

// inForce returns the limits that a level holds for a bucket, or the defaults of a
// charge.
func (h *history) inForce(b balance, defaults []limiter.Limit) []limiter.Limit {
	defer func(fault Fault) { h.fault = fault }(h.fault)

	h.fault = None
	for _, s := range limiter.Precedence(b.Entity, b.Resource) {
		if cfg, err := h.where.repos[0].Config(h.ctx, s); err == nil && len(cfg.Limits) > 0 {
			return cfg.Limits
		}
	}
	return defaults
}
