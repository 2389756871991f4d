package plot

import (
	"math"
	"strconv"
)

// axis is the scale of the tokens. It starts and ends at a tick and has one at 0.
// Ticks are whole tokens, with some rows in between.
type axis struct {
	bottom, top float64
	step        float64 // tokens from tick to tick
	rows        int     // lines from tick to tick
}

const (
	usualTicks = 5  // approximate number of ticks above the bottom
	usualRows  = 10 // approximate number of rows
)

// newAxis returns an axis for values from low to high and for 0.
func newAxis(low, high float64) axis {
	low, high = min(low, 0), max(high, 0)

	step := roundStep((high - low) / usualTicks)
	a := axis{bottom: math.Floor(low/step) * step, top: math.Ceil(high/step) * step, step: step}
	if a.bottom == a.top {
		// An axis needs a height, even if all values are 0.
		a.top = step
	}

	ticks := a.ticks()
	a.rows = max(1, (usualRows+ticks/2)/ticks)
	return a
}

// roundStep returns the smallest of 1, 2, 5, 10, 20, 25, 50, 100, 200, 250 and so
// on that is at least low.
func roundStep(low float64) float64 {
	for power := 1.0; ; power *= 10 {
		for _, digit := range []float64{1, 2, 2.5, 5} {
			// A tick of 2.5 tokens would be no whole number, but one of 25 is.
			if step := digit * power; step >= low && step == math.Trunc(step) {
				return step
			}
		}
	}
}

func (a axis) ticks() int { return int(math.Round((a.top - a.bottom) / a.step)) }

// height returns the number of lines from the bottom to the top.
func (a axis) height() int { return a.ticks() * a.rows }

// zero returns the line of 0, counted from the top.
func (a axis) zero() int { return int(math.Round(a.top/a.step)) * a.rows }

// label returns the label of the line at value, or "" between the ticks.
func (a axis) label(value float64) string {
	// asciigraph computes the value of a line, with a rounding error.
	line := int(math.Round((a.top - value) / a.step * float64(a.rows)))
	if line%a.rows != 0 {
		return ""
	}

	ticks := (a.zero() - line) / a.rows
	if ticks == 0 {
		return "0"
	}
	return grouped(strconv.FormatFloat(float64(ticks)*a.step, 'f', 0, 64))
}

// width returns the width of the longest label.
func (a axis) width() int { return max(len(a.label(a.bottom)), len(a.label(a.top))) }

// labelWidth returns a width for the labels of all series, so that their charts
// align. Means lie between the lowest and the highest value, so their labels are
// not longer. The minimum is 2, since asciigraph drops a space beside a single
// character.
func labelWidth(all []series) int {
	width := 2
	for _, s := range all {
		width = max(width, newAxis(float64(s.low), float64(s.peak)).width())
	}
	return width
}

// layout spreads the windows of a span over columns. Each window gets the same
// number of columns; if there are more windows than columns, each column gets
// about the same number of windows.
type layout struct {
	span
	columns int
	repeat  int // columns per window; 0 if windows are merged
}

// minColumns is the minimum number of columns of a chart. A narrower terminal
// shows the left part.
const minColumns = 10

func newLayout(s span, room int) layout {
	room = max(room, minColumns)
	if n := s.windows(); n <= int64(room) {
		repeat := room / int(n)
		return layout{s, int(n) * repeat, repeat}
	}

	return layout{s, room, 0}
}

func (l layout) merged() bool { return l.columns > 0 && l.repeat == 0 }

// each returns the average number of windows per column.
func (l layout) each() float64 { return float64(l.windows()) / float64(l.columns) }

// column returns the first column of a window.
func (l layout) column(window int64) int {
	i := window - l.first

	// This is the last column that begins at the window or before it, as size
	// computes the beginnings.
	if l.merged() {
		return int(((i+1)*int64(l.columns) - 1) / l.windows())
	}
	return int(i) * l.repeat
}

// size returns the number of windows that are merged in a column.
func (l layout) size(column int) int64 {
	begin := func(c int) int64 { return int64(c) * l.windows() / int64(l.columns) }
	return begin(column+1) - begin(column)
}
