package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
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

// window is the window of a generated quota.
type window struct {
	unit calendar.Unit
	zone string
}

// someWindows lists windows, the short ones several times: a history crosses those
// more often.
var someWindows = []window{
	{calendar.Hour, ""}, {calendar.Hour, ""}, {calendar.Hour, ""}, {calendar.Day, ""}, {calendar.Day, "Europe/Berlin"},
	{calendar.Day, "America/Santiago"}, {calendar.Day, "America/Havana"}, {calendar.Day, "Pacific/Apia"},
	{calendar.Week, ""}, {calendar.Week, "Asia/Kolkata"}, {calendar.Month, ""}, {calendar.Month, "Europe/Berlin"}, {calendar.Year, ""},
}

// next returns the first boundary after t.
func (w window) next(t time.Time) time.Time {
	found, err := calendar.Load(w.unit, w.zone)
	if err != nil {
		return t // a machine without zones; tests embed them
	}
	return time.UnixMilli(found.End(t.UnixMilli()))
}

// nearBoundary returns the next boundary of a window, a little earlier or later.
func nearBoundary(w window, t time.Time, off time.Duration) time.Time {
	near := w.next(t).Add(off)
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
		next = nearBoundary(pick(h.rng, someWindows), h.now, time.Duration(h.rng.Int64N(int64(3*maxSkew)))-3*maxSkew/2)
	case h.chance(300):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(50 * time.Hour))))
	case h.chance(40):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(3 * time.Minute))))
	case h.chance(2):
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(400 * time.Millisecond))))
	}
	if h.era.most > 0 && next.Sub(h.era.begin) > h.era.most {
		next = h.now.Add(time.Duration(h.rng.Int64N(int64(time.Second))))
	}
	h.now = next
}
