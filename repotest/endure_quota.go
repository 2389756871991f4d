package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// windowBook adds up what a quota admitted by the window that the tokens belong to,
// in whole tokens. It needs no order of events: what may be given back is known
// before the call that gives it back.
type windowBook struct{ used, given map[int64]int64 }

// windows returns the book of a quota's windows.
func (b *book) windowsOf() *windowBook {
	if b.windows == nil {
		b.windows = &windowBook{used: map[int64]int64{}, given: map[int64]int64{}}
	}
	return b.windows
}

// giveWindow books tokens that may come back to the window of a time, or to the next
// one, which a client whose clock is ahead may have begun.
func (b *book) giveWindow(l limiter.Limit, now, n int64) {
	w := rateOf(l).Window
	b.windowsOf().given[w.Start(now)] += n
	if end := w.End(now); end <= now+skew.Milliseconds() {
		b.windows.given[end] += n
	}
}

// checkWindow checks that the stored window of a charge admits no more than the
// capacity and what was given back.
func (e *endurance) checkWindow(bk *book, l limiter.Limit, b limiter.Bucket, i int, n int64) {
	e.Helper()
	if b.Detail == nil || b.Detail.Starts == nil || i < 0 {
		e.fail("%s of %s and %s: the outcome names no window", l, b.Account.Entity, b.Account.Resource)
	}
	begin, w := b.Detail.Starts[i], bk.windowsOf()
	if begin != rateOf(l).Window.Start(begin) {
		e.fail("%s of %s and %s: %d is not the start of a window", l, b.Account.Entity, b.Account.Resource, begin)
	}
	w.used[begin] += n
	if over := w.used[begin] - l.Capacity - w.given[begin]; over > 0 {
		e.fail("%s of %s and %s: the window of %d admits %d tokens more than the limits allow", l, b.Account.Entity, b.Account.Resource, begin, over)
	}
}

// spares reports whether a charge spared limit i of a bucket. It checks that the
// limit is a shadow limit and holds too little.
func (e *endurance) spares(b limiter.Bucket, i int, n int64) bool {
	e.Helper()
	if i < 0 || b.Detail == nil || b.Detail.Spared == nil || !b.Detail.Spared[i] {
		return false
	}
	if l := b.Account.Limits[i]; !l.IsShadow || b.Tokens[i] >= n*bucket.Milli {
		e.fail("%s of %s and %s: a charge of %d is spared, but the bucket holds %d thousandths", l, b.Account.Entity, b.Account.Resource, n, b.Tokens[i])
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
		e.fail("%s of %s and %s: an admitted charge left %d thousandths, and was not spared", b.Account.Limits[i], b.Account.Entity, b.Account.Resource, b.Tokens[i])
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
			w = window{calendar.Unit(l.Window), l.Zone}
			e.crowd = crowd{limiter.Scope{Entity: pick(e.rng, someEntities), Resource: pick(e.rng, someResources)}, l, 10 + e.rng.IntN(20)}
		}
	}
	near := time.Duration(e.rng.Int64N(int64(4*skew))) - 3*skew
	return nearBoundary(w, e.now, near).Sub(e.now)
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
