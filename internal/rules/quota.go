package rules

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// RateOf returns how a limit fills, in the units of package bucket. A zone that
// cannot be loaded, which Validate detects, makes a quota that never fills.
func RateOf(l limiter.Limit) bucket.Rate {
	r := bucket.RateOf(l.Capacity, l.Refill, l.Period)
	if l.Window != 0 {
		r.Window, _ = calendar.Load(calendar.Unit(l.Window), l.Zone)
	}
	return r
}

// WindowText returns the stored form of a quota's window, such as "month" or
// "day:Europe/Berlin", and "" for a rate.
func WindowText(l limiter.Limit) string {
	if l.Zone == "" {
		return l.Window.String()
	}
	return l.Window.String() + ":" + l.Zone
}

// ParseWindow reverts WindowText. It checks the name of the window, and leaves the
// zone to limiter.Limit.Validate.
func ParseWindow(text string) (every limiter.Calendar, zone string, err error) {
	name, zone, _ := strings.Cut(text, ":")
	every, err = limiter.ParseCalendar(name)
	return every, zone, err
}

// CheckZones returns a *limiter.InvalidError if this process cannot load the zone
// of a limit. Another process may have stored it.
func CheckZones(limits []limiter.Limit) error {
	for i := range limits {
		// UTC is part of every program, so only a named zone can be missing.
		if limits[i].Zone != "" && RateOf(limits[i]).Window == nil {
			return limits[i].Validate()
		}
	}
	return nil
}

// sameWindow reports whether two limits are quotas of the same windows.
func sameWindow(a, b limiter.Limit) bool {
	return a.Window != 0 && a.Window == b.Window && a.Zone == b.Zone
}

// hasQuota reports whether a limit is a quota.
func hasQuota(limits []limiter.Limit) bool {
	return slices.ContainsFunc(limits, limiter.Limit.IsQuota)
}

// startsAt returns the windows to which the tokens of quotas belong at now, nil if
// no limit is a quota. A window never goes back.
func (b *Bucket) startsAt(now int64) []int64 {
	if b.Starts == nil {
		return nil
	}

	starts := make([]int64, len(b.Starts))
	for i, l := range b.Account.Limits {
		if l.Window != 0 {
			starts[i] = b.Starts[i]
			// A quota whose zone cannot be loaded stays in the window that is
			// stored.
			if w := RateOf(l).Window; w != nil {
				starts[i] = max(starts[i], w.Start(now))
			}
		}
	}
	return starts
}

// openWindows moves the tokens of quotas to their windows at now. The peak of a
// window and its hidden use end with it.
func (b *Bucket) openWindows(now int64) {
	starts := b.startsAt(now)
	b.Peaks, b.Hidden = b.staying(b.Peaks, starts), b.staying(b.Hidden, starts)
	b.Starts = starts
}

// rate returns how limit i fills.
func (b *Bucket) rate(i int) bucket.Rate {
	r := RateOf(b.Account.Limits[i])
	// A nil list means that each peak is the present capacity.
	if b.Peaks != nil {
		r.Peak = b.Peaks[i]
	}
	return r
}

// staying returns a copy of a list with a number for each limit. It sets the number of
// a limit to 0 if its window does not begin at starts. It returns nil if all are 0.
func (b *Bucket) staying(list, starts []int64) (same []int64) {
	for i, n := range list {
		// A boundary ends the peak and the hidden use of its window.
		if n == 0 || starts[i] != b.Starts[i] {
			continue
		}
		if same == nil {
			same = make([]int64, len(list))
		}
		same[i] = n
	}
	return same
}

// windowStart returns the start of the window of a quota that contains now.
func windowStart(l limiter.Limit, now int64) int64 {
	if w := RateOf(l).Window; w != nil {
		return w.Start(now)
	}
	return now
}

// newStarts returns the current windows of limits, nil if none is a quota.
func newStarts(now int64, limits []limiter.Limit) []int64 {
	if !hasQuota(limits) {
		return nil
	}
	starts := make([]int64, len(limits))
	for i, l := range limits {
		if l.Window != 0 {
			starts[i] = windowStart(l, now)
		}
	}
	return starts
}

// advanced returns the tokens of limit i, refilled: a rate up to at, and a quota
// up to now. The two differ while the bucket's own time is ahead of the caller's:
// a quota depends on the caller's time and its window alone.
func (b *Bucket) advanced(i int, at, now int64) int64 {
	l := &b.Account.Limits[i]
	if l.Window == 0 {
		return bucket.Advance(b.Tokens[i], b.At, at, RateOf(*l))
	}
	return bucket.Advance(b.Tokens[i], b.Starts[i], now, b.rate(i))
}

// detail returns the Detail of a view of the bucket at now. spared is nil if no
// limit was spared.
func (b *Bucket) detail(now int64, spared []bool) *limiter.Detail {
	if b.Starts == nil && spared == nil {
		return nil
	}
	starts := b.startsAt(now)
	return &limiter.Detail{At: now, Starts: starts, Peaks: b.staying(b.Peaks, starts), Spared: spared}
}

// InWindow returns the amounts of a credit that apply to the bucket at now. It
// leaves out what Starts of the credit binds to another window.
func (b *Bucket) InWindow(c *limiter.Credit, now int64) limiter.Amounts {
	if c.Starts == nil {
		return c.Amounts
	}

	var amounts limiter.Amounts
	starts := b.startsAt(now)
	for i := range c.Amounts.Len() {
		name, n := c.Amounts.At(i)
		j, bound := find(b.Account.Limits, name, i), find(c.Account.Limits, name, i)
		// A limit that has left the bucket has its window in Left.
		has, start := j >= 0, int64(0)
		if has && starts != nil {
			start = starts[j]
		} else if k := b.findLeft(name); k >= 0 {
			has, start = true, b.Left[k].advanced(b.At, now).Start
		}
		// Giving back to a later window would add to the capacity that the
		// boundary gave it. What is taken late, the present window owes.
		if n > 0 && has && bound >= 0 && bound < len(c.Starts) && start != c.Starts[bound] {
			continue
		}

		amounts = amounts.And(name, n)
	}
	return amounts
}
