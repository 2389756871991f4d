// Package calendar computes the windows of quotas: hours, days, ISO weeks, months
// and years, in UTC or in a zone of the IANA database. Time is an argument, in Unix
// milliseconds: the package has no clock.
//
// A boundary of a unit is the first instant whose local date is later than the date
// of every earlier instant, and lies in a later unit. Clocks that go back over
// midnight repeat a date, and make no second boundary. Clocks that skip midnight
// move the boundary to the instant of the change. Where a zone skips a whole unit,
// as Apia skipped 30 December 2011, the unit has no boundary of its own.
//
// Every function accepts every int64. Results that do not fit saturate.
package calendar

import (
	"math"
	"sync/atomic"
)

// Window divides time into the calendar units of a zone. It is safe for concurrent
// use. Load makes it.
type Window struct {
	unit  Unit
	clock clock
	most  int64 // the number of the last unit
	gaps  []gap // the units that the clock skips, in order
	// last is the answer of the last call, which the next one most likely needs.
	last atomic.Pointer[bounds]
}

// bounds holds the first instant of a unit, and the first after it, in milliseconds.
type bounds struct{ start, end int64 }

// Start returns the latest boundary at or before ms. The first unit that reaches
// into the range of int64 starts at math.MinInt64.
func (w *Window) Start(ms int64) int64 { return w.around(ms).start }

// End returns the first boundary after ms, or math.MaxInt64 where that does not fit.
func (w *Window) End(ms int64) int64 { return w.around(ms).end }

// Count returns the number of boundaries after from, up to and including to. It
// returns 0 unless to is later than from.
func (w *Window) Count(from, to int64) int64 {
	// Most calls ask about the window of the call before, and need no date.
	if to <= from || w.last.Load().holds(from, to) {
		return 0
	}

	first, last := w.index(seconds(from)), w.index(seconds(to))
	n := last - first
	for _, g := range w.gaps {
		// Units that the clock skips have no boundary.
		if first <= g.after && g.after < last {
			n -= g.units
		}
	}

	return n
}

// After returns the n-th boundary after from, or math.MaxInt64 where that does not
// fit. If n is less than 1, it returns the start of the unit of from. A boundary is
// at or before an instant to exactly where n is at most Count(from, to).
func (w *Window) After(from, n int64) int64 {
	first := w.index(seconds(from))
	// The unit is beyond the last that an int64 holds.
	if n > w.most-first {
		return math.MaxInt64
	}

	i := first + max(n, 0)
	// Units that the clock skips are passed without a boundary.
	for _, g := range w.gaps {
		if first <= g.after && g.after < i {
			i += g.units
		}
	}

	return milliseconds(w.begin(i))
}

// around returns the bounds of the unit of ms.
func (w *Window) around(ms int64) *bounds {
	// Most calls ask about the window of the call before, and need no date.
	if b := w.last.Load(); b.holds(ms, ms) {
		return b
	}

	i := w.index(seconds(ms))
	b := &bounds{start: milliseconds(w.begin(i)), end: milliseconds(w.begin(i + 1))}
	w.last.Store(b)
	return b
}

// holds reports whether two instants, the earlier first, lie in b.
func (b *bounds) holds(from, to int64) bool { return b != nil && b.start <= from && to < b.end }

// index returns the number of the latest unit that has begun at sec.
func (w *Window) index(sec int64) int64 { return w.unit.of(w.clock.latest(sec)) }

// begin returns the second in which unit i begins. Units that the clock skips begin
// with the next.
func (w *Window) begin(i int64) int64 { return w.clock.reach(w.unit.first(i)) }

// seconds returns the second of an instant in milliseconds.
func seconds(ms int64) int64 { return floorDiv(ms, 1000) }

// milliseconds returns the first millisecond of a second, or the nearest int64.
func milliseconds(sec int64) int64 {
	switch {
	case sec < math.MinInt64/1000:
		return math.MinInt64
	case sec > math.MaxInt64/1000:
		return math.MaxInt64
	default:
		return sec * 1000
	}
}
