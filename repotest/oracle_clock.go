package repotest

import (
	"math/bits"
	"sort"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// window is the window of a quota: a length and the zone of its days.
type window struct {
	every limiter.Calendar
	zone  string
}

func windowOf(l limiter.Limit) window { return window{l.Window, l.Zone} }

// span is the time from the start of a window to its end, in Unix milliseconds. The
// end belongs to the next window.
type span struct{ start, end int64 }

func (s span) contains(t int64) bool { return s.start <= t && t < s.end }

// almanac finds the windows of quotas with the dates of package time alone. It keeps
// what it has found. The stores have a faster way, which it has to confirm.
type almanac struct {
	zones map[string]*time.Location
	found map[window][2]span // the last two
}

func newAlmanac() *almanac {
	return &almanac{zones: map[string]*time.Location{"": time.UTC}, found: map[window][2]span{}}
}

// longest returns a time that is longer than any window.
func (w window) longest() int64 {
	// A zone may skip a day, and clocks change, so each time is longer than the
	// calendar says.
	days := map[limiter.Calendar]int64{
		limiter.EveryHour: 1, limiter.EveryDay: 3, limiter.EveryWeek: 9, limiter.EveryMonth: 33,
		limiter.EveryYear: 368,
	}

	return days[w.every] * day.Milliseconds()
}

// spanAt returns the window that contains a time.
func (a *almanac) spanAt(w window, t int64) span {
	last := a.found[w]
	for _, s := range last {
		if s.contains(t) {
			return s
		}
	}

	zone := a.zone(w.zone)
	this, longest := period(w.every, zone, t), w.longest()
	// Each end is at most the longest time away, so a search between finds it.
	s := span{
		start: t - longest + firstWhere(longest, func(ms int64) bool {
			return period(w.every, zone, t-longest+ms) == this
		}),
		end: t + firstWhere(longest, func(ms int64) bool { return period(w.every, zone, t+ms) > this }),
	}

	a.found[w] = [2]span{s, last[0]}
	return s
}

func (a *almanac) start(w window, t int64) int64 { return a.spanAt(w, t).start }
func (a *almanac) end(w window, t int64) int64   { return a.spanAt(w, t).end }

// zone returns a zone by its name. A machine without zones has UTC alone.
func (a *almanac) zone(name string) *time.Location {
	if a.zones[name] == nil {
		found, err := time.LoadLocation(name)
		if err != nil {
			found = time.UTC
		}

		a.zones[name] = found
	}
	return a.zones[name]
}

// firstWhere returns the smallest number up to most for which a condition holds. It holds
// for all larger ones too.
func firstWhere(most int64, holds func(int64) bool) int64 {
	return int64(sort.Search(int(most), func(n int) bool { return holds(int64(n)) }))
}

// period numbers the calendar periods of a zone in the order of time: by the hour, or
// by the first date of the day, week, month or year that contains t there.
func period(every limiter.Calendar, zone *time.Location, t int64) int64 {
	if every == limiter.EveryHour {
		return t / time.Hour.Milliseconds()
	}

	local := time.UnixMilli(t).In(zone)
	y, m, d := local.Date()

	switch every {
	case limiter.EveryWeek:
		d -= (int(local.Weekday()) + 6) % 7 // back to Monday
	case limiter.EveryMonth:
		d = 1
	case limiter.EveryYear:
		m, d = time.January, 1
	}

	// The date counts and not the instant, so dates are numbered as if they
	// were in UTC, where each has 24 hours.
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
}

// earned returns the thousandths that a rate refills from the beginning of 1970 up to
// a time, rounded down. The refill between two times is a difference of these.
func earned(l limiter.Limit, t int64) int64 {
	// Thousandths and milliseconds cancel out.
	hi, lo := bits.Mul64(uint64(t), uint64(l.Refill))
	q, _ := bits.Div64(hi, lo, uint64(l.Period/time.Second))
	return int64(q)
}

// refillTime returns the milliseconds in which a rate surely does not refill more
// than some thousandths.
func refillTime(l limiter.Limit, thousandths int64) int64 {
	// The refill between two times is rounded, and may be up to a thousandth
	// more than what the time earns.
	hi, lo := bits.Mul64(uint64(max(0, thousandths-1)), uint64(l.Period/time.Second))
	q, _ := bits.Div64(hi, lo, uint64(l.Refill))
	return int64(q)
}

// milli is the number of thousandths in a token.
const milli = 1000
