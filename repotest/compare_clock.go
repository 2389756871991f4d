package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// era is a time at which a history begins.
type era struct {
	begin time.Time
	// most bounds how far the clock goes, 0 for no bound. Stores forget old usage
	// once their machine's clock is past its retention, each in its own time, so a
	// history in the past has to be short.
	most time.Duration
}

// eras lists the beginnings: a month end, changes of clocks, a skipped day, and a
// leap day in a future that no machine's clock has reached.
var eras = []era{
	{time.Date(2026, time.January, 31, 23, 58, 0, 0, time.UTC), 60 * day},
	{time.Date(2096, time.February, 27, 22, 0, 0, 0, time.UTC), 0},
	{time.Date(2011, time.December, 28, 9, 0, 0, 0, time.UTC), 60 * day},
	{time.Date(2096, time.October, 20, 12, 0, 0, 0, time.UTC), 0},
	{time.Date(2019, time.November, 1, 12, 0, 0, 0, time.UTC), 60 * day},
	{time.Date(2097, time.December, 28, 12, 0, 0, 0, time.UTC), 0},
	{time.Date(2026, time.March, 27, 12, 0, 0, 0, time.UTC), 60 * day},
}

// someWindows lists windows, the short ones several times: a history crosses those
// more often.
var someWindows = []window{
	{limiter.EveryHour, ""},
	{limiter.EveryHour, ""},
	{limiter.EveryHour, ""},
	{limiter.EveryDay, ""},
	{limiter.EveryDay, "Europe/Berlin"},
	{limiter.EveryDay, "America/Santiago"},
	{limiter.EveryDay, "America/Havana"},
	{limiter.EveryDay, "Pacific/Apia"},
	{limiter.EveryWeek, ""},
	{limiter.EveryWeek, "Asia/Kolkata"},
	{limiter.EveryMonth, ""},
	{limiter.EveryMonth, "Europe/Berlin"},
	{limiter.EveryYear, ""},
}

// next returns the first boundary of a window after t.
func (a *almanac) next(w window, t time.Time) time.Time {
	return time.UnixMilli(a.end(w, t.UnixMilli()))
}

// nearBoundary returns the next boundary of a window, a little earlier or later.
func (a *almanac) nearBoundary(w window, t time.Time, off time.Duration) time.Time {
	near := a.next(w, t).Add(off)
	if near.Before(t) {
		return t
	}
	return near
}

// advance moves the clock: mostly a little, at times to a boundary, or long enough
// to fill a bucket or to expire it.
func (h *history) advance() {
	next := h.now

	switch {
	case h.chance(30):
		// The offset is about the skew of the clocks, so that clients charge on
		// both sides of the boundary.
		next = h.oracle.nearBoundary(pick(h.rng, someWindows), h.now,
			time.Duration(h.rng.Int64N(int64(3*maxSkew)))-3*maxSkew/2)
	case h.chance(300):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(50 * time.Hour))))
	case h.chance(40):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(3 * time.Minute))))
	case h.chance(2):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(400 * time.Millisecond))))
	}

	if h.tooLate(next) {
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(time.Second))))
	}

	h.now = next
}

func (h *history) tooLate(t time.Time) bool { return h.era.most > 0 && t.Sub(h.era.begin) > h.era.most }

// rush goes to the next boundary of a quota that a bucket has, and charges the
// bucket there by clocks before and after it.
func (h *history) rush() {
	charge := h.charge()

	look := limiter.Charge{Entity: charge.Entity, Resource: charge.Resource, Defaults: charge.Defaults}
	got, err := without(h, "Peek", func(_ int, repo limiter.Repository) (answer, error) {
		out, err := repo.Peek(h.ctx, h.now, look)
		return answerOf(out, look), err
	})
	if err != nil {
		return
	}

	for _, l := range h.shuffled(got.Payers[0].Limits) {
		if !l.IsQuota() {
			continue
		}
		if h.rushAtChange(charge, l) {
			return
		}

		if boundary := h.oracle.next(windowOf(l), h.now); !h.tooLate(boundary) {
			h.now = boundary
			h.rushAt(charge, l)
			return
		}
	}
}

// rushAtChange goes to the next change of the clocks in a quota's zone at times, and
// charges the bucket before and after it. It reports whether it did.
func (h *history) rushAtChange(charge limiter.Charge, l limiter.Limit) bool {
	zone, err := time.LoadLocation(l.Zone)
	if err != nil || l.Zone == "" || !h.chance(2) {
		return false
	}

	_, change := h.now.In(zone).ZoneBounds()
	// The clock of a history never goes back.
	if before := change.Add(-90 * time.Minute); change.IsZero() || h.tooLate(change) || before.Before(h.now) {
		return false
	}

	for _, h.now = range []time.Time{change.Add(-90 * time.Minute).UTC(), change.UTC()} {
		h.rushAt(charge, l)
	}
	return true
}

// rushAt charges a bucket often, for large parts of a quota.
func (h *history) rushAt(charge limiter.Charge, l limiter.Limit) {
	// An override would judge by limits of its own, and the quota would not
	// refuse.
	charge.Limits = nil

	for range 4 + h.rng.IntN(8) {
		charge.Amounts = limiter.Tokens(l.Name, h.rng.Int64N(l.Capacity/2+2))
		if h.chance(4) {
			charge.Amounts = charge.Amounts.And(pick(h.rng, someLimits), h.rng.Int64N(3))
		}
		h.consumeAt(h.clock(), charge)
	}
}

func (h *history) shuffled(limits []limiter.Limit) []limiter.Limit {
	limits = slices.Clone(limits)
	h.rng.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
	return limits
}
