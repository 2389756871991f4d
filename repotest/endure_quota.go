package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// windowStart identifies a window of a quota.
type windowStart struct {
	window
	start int64
}

// windowSum adds up what a quota admitted in a window, in whole tokens. It needs no
// order of events: what may be given back is known before the call that gives it back.
type windowSum struct {
	used int64
	// given is the most that may have come back, by credits, fills and other
	// windows that the limit had in between.
	given int64
	// returned reports that the limit had other windows in between. The bucket has
	// then forgotten what it had used before.
	returned bool
}

func (b *book) sum(w windowStart) *windowSum {
	if b.windows == nil {
		b.windows = map[windowStart]*windowSum{}
	}

	if b.windows[w] == nil {
		b.windows[w] = &windowSum{}
	}

	return b.windows[w]
}

// giveWindow books tokens that may come back to the window of a time, or to the next
// one, which a client whose clock is ahead may have begun. It does so for each quota
// that a bucket may have for a name.
func (e *endurance) giveWindow(b *book, name string, now int64, tokens func(limiter.Limit) int64, next bool) {
	all := e.history[name]
	for i, v := range all {
		// The last limit stays in force, and an earlier one until clients have
		// forgotten it.
		if !v.limit.IsQuota() || v.until < now && i < len(all)-1 {
			continue
		}

		at := e.oracle.spanAt(windowOf(v.limit), now)
		b.sum(windowStart{windowOf(v.limit), at.start}).given += tokens(v.limit)
		// A client whose clock is ahead may be in the next window.
		if next || at.end <= now+skew.Milliseconds() {
			b.sum(windowStart{windowOf(v.limit), at.end}).given += tokens(v.limit)
		}
	}
}

// returns books what a limit may bring along when it comes back to windows that it had
// before: at most what it held in between.
func (e *endurance) returns(l limiter.Limit) {
	// The limit may have held the largest capacity that it had in between.
	between := int64(0)
	for _, v := range slices.Backward(e.history[l.Name]) {
		if windowOf(v.limit) == windowOf(l) {
			break
		}
		between = max(between, v.limit.Capacity)
	}

	if !l.IsQuota() || len(e.history[l.Name]) == 0 {
		return
	}

	// A quota of 388 a week is used up, becomes one of an hour, and comes back as 291 a
	// week with what the hour has left. If it is raised to 388 then, it gains 97 once
	// more, although the week has had a capacity of 388 before.
	brought, comesBack := min(l.Capacity, between), between > 0
	if !comesBack {
		had := e.history[l.Name][len(e.history[l.Name])-1]
		brought = max(0, l.Capacity-had.limit.Capacity)
	}
	for k, b := range e.books {
		if k.limit != l.Name {
			continue
		}

		now := e.now.UnixMilli()
		at := e.oracle.spanAt(windowOf(l), now)
		// Of two clients at a boundary, one may be in the next window.
		for _, start := range []int64{at.start, at.end} {
			sum := b.windows[windowStart{windowOf(l), start}]
			if sum != nil && (comesBack || sum.returned) {
				sum.given, sum.returned = sum.given+brought, true
			}
		}
	}
}

// peak returns the largest capacity that a quota of some windows had in one of them.
func (e *endurance) peak(name string, w windowStart) (capacity int64) {
	end := e.oracle.end(w.window, w.start)
	for _, v := range e.history[name] {
		if windowOf(v.limit) == w.window && v.until >= w.start && v.from < end {
			capacity = max(capacity, v.limit.Capacity)
		}
	}
	return capacity
}

// checkWindow checks that the stored window of a charge admits no more than the
// largest capacity in it and what was given back.
func (e *endurance) checkWindow(bk *book, l limiter.Limit, b limiter.Bucket, i int, n int64) {
	e.Helper()

	if b.Detail == nil || b.Detail.Starts == nil {
		e.fail("%s of %s and %s: the outcome names no window", l, b.Account.Entity, b.Account.Resource)
	}

	w := windowStart{windowOf(l), b.Detail.Starts[i]}
	if w.start != e.oracle.start(w.window, w.start) {
		e.fail("%s of %s and %s: %d is not the start of a window", l, b.Account.Entity, b.Account.Resource, w.start)
	}

	sum := bk.sum(w)
	sum.used += n

	if over := sum.used - e.peak(l.Name, w) - sum.given; over > 0 {
		e.fail("%s of %s and %s: the window of %d admits %d tokens more than the limits allow", l, b.Account.Entity,
			b.Account.Resource, w.start, over)
	}
}

// spares reports whether a charge spared limit i of a bucket. It checks that the
// limit is a shadow limit and holds too little.
func (e *endurance) spares(b limiter.Bucket, i int, n int64) bool {
	e.Helper()
	if i < 0 || b.Detail == nil || b.Detail.Spared == nil || !b.Detail.Spared[i] {
		return false
	}

	if l := b.Account.Limits[i]; !l.IsShadow || b.Tokens[i] >= n*milli {
		e.fail("%s of %s and %s: a charge of %d is spared, but the bucket holds %d thousandths", l,
			b.Account.Entity, b.Account.Resource, n, b.Tokens[i])
	}
	return true
}

// indexOf returns the index of a limit, or -1.
func indexOf(limits []limiter.Limit, name string) int {
	for i, l := range limits {
		if l.Name == name {
			return i
		}
	}
	return -1
}

// checkShadow checks that an admitted charge was not paid by a shadow limit that did
// not cover it: its balance would be negative. A client that holds tokens may spend
// them while another has left the bucket in debt.
func (e *endurance) checkShadow(b limiter.Bucket, i int) {
	e.Helper()
	if e.busy == nil && i >= 0 && b.Account.Limits[i].IsShadow && b.Tokens[i] < 0 {
		e.fail("%s of %s and %s: an admitted charge left %d thousandths, and was not spared", b.Account.Limits[i],
			b.Account.Entity, b.Account.Resource, b.Tokens[i])
	}
}

// crowd is a number of steps that charge one quota of one bucket, around a boundary.
type crowd struct {
	at    limiter.Scope
	quota limiter.Limit
	steps int
}

// rush returns the time until shortly before or after the next boundary of a quota,
// and makes the next steps charge it.
func (e *endurance) rush() time.Duration {
	w := pick(e.rng, someWindows)
	for _, l := range e.limits {
		if l.IsQuota() && (e.crowd.steps == 0 || e.chance(2)) {
			w = windowOf(l)
			e.crowd = crowd{
				limiter.Scope{Entity: pick(e.rng, someEntities), Resource: pick(e.rng, someResources)},
				l,
				10 + e.rng.IntN(20),
			}
		}
	}

	near := time.Duration(e.rng.Int64N(int64(4*skew))) - 3*skew
	return e.oracle.nearBoundary(w, e.now, near).Sub(e.now)
}

// aim points most charges at the quota of a crowd.
func (e *endurance) aim(c *limiter.Charge) {
	if e.crowd.steps == 0 {
		return
	}

	if e.crowd.steps--; e.chance(4) {
		return
	}

	c.Entity, c.Resource = e.crowd.at.Entity, e.crowd.at.Resource
	c.Amounts = limiter.Tokens(e.crowd.quota.Name, e.rng.Int64N(e.crowd.quota.Capacity/4+2))
}
