package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// busyHistory is what differs in a history of clients that hold tokens.
type busyHistory struct {
	*endurance
	holds func([]limiter.Limit) time.Duration

	steps int // left of this phase
	// burst reports whether the phase is a burst. In a slow phase the calls need
	// about as much as is refilled.
	burst bool
	keeps bool // the phase gives nothing back
	hot   limiter.Scope
}

// holds returns, in milliseconds, how long before a window a give-back may be spent
// in it. The clocks of clients differ.
func (e *endurance) holds() int64 {
	if e.busy == nil {
		return 0
	}
	return (e.busy.holds(e.limits) + skew).Milliseconds()
}

// limit returns a limit with a fill time between eight seconds and eight minutes, or
// in a metered history a quota or a shadow limit at times.
func (b *busyHistory) limit(name string) limiter.Limit {
	period := pick(b.rng, []time.Duration{10 * time.Second, time.Minute, 2 * time.Minute})

	capacity := 400 + b.rng.Int64N(4000)
	l := limiter.Custom(name, capacity, capacity/4+b.rng.Int64N(capacity), period)

	if !b.metered() {
		return l
	}

	if b.chance(2) {
		l = limiter.Quota(name, capacity, limiter.EveryHour)
	}
	l.IsShadow = b.chance(5)
	return l
}

// metered reports whether the history has quotas and shadow limits. Half of the
// histories have rates alone, so that all their calls meet rates.
func (b *busyHistory) metered() bool { return b.seed%4 == 1 || b.seed%4 == 2 }

// advance returns a step of the clock, and begins a phase at times. Before a phase
// with another bucket there is a pause, in which buckets fill up.
func (b *busyHistory) advance() time.Duration {
	hold := b.holds(b.limits) / 3

	if b.steps == 0 {
		b.burst, b.keeps = !b.burst, b.chance(2)
		// A burst spends what a slow phase has left in pots, so the first phase
		// is slow.
		if b.burst = b.burst && b.hot != (limiter.Scope{}); !b.burst {
			b.steps = 100 + b.rng.IntN(300)
			b.hot = limiter.Scope{
				Entity:   pick(b.rng, []string{"alice", "key-1", "key-2", "team"}),
				Resource: pick(b.rng, someResources),
			}

			pause := time.Duration(b.rng.Int64N(int64(100 * hold)))
			// The phase then crosses a boundary.
			if b.metered() && b.chance(3) {
				pause = b.oracle.nearBoundary(window{limiter.EveryHour, ""}, b.now,
					-time.Duration(b.rng.Int64N(int64(20*hold)))).Sub(b.now)
			}
			return pause
		}

		b.steps = 100 + b.rng.IntN(200)
	}

	b.steps--

	if b.burst {
		return time.Duration(b.rng.Int64N(2)) * time.Millisecond
	}
	return time.Duration(b.rng.Int64N(int64(hold / 3)))
}

// rare reports whether a step that interrupts the work is left out: pots need time.
func (b *busyHistory) rare() bool { return b != nil && !b.chance(10) }

// keep reports whether nothing is given back in this phase.
func (b *busyHistory) keep() bool { return b != nil && b.keeps }

// aim points most charges at the bucket of the phase, with amounts to match its
// pace.
func (b *busyHistory) aim(c *limiter.Charge) {
	if !b.chance(8) {
		c.Entity, c.Resource = b.hot.Entity, b.hot.Resource
	}

	share := int64(1600)
	if b.burst {
		// Small amounts take what large ones leave.
		share = 8 << b.rng.IntN(7)
	}

	var amounts limiter.Amounts
	for limit := range c.Amounts.All() {
		// A limit that was dropped has no capacity to match.
		most := share
		if l, ok := b.find(limit); ok {
			most = l.Capacity
		}
		amounts = amounts.And(limit, b.rng.Int64N(most/share+2))
	}

	c.Amounts = amounts
}
