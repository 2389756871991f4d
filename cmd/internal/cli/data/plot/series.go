package plot

import (
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// series holds the tokens of one limit by window. Missing windows count as 0.
type series struct {
	span
	limit     string
	tokens    map[int64]int64
	total     int64
	low, peak int64 // of all windows
}

func newSeries(limit string, tokens map[int64]int64, s span) series {
	all := series{span: s, limit: limit, tokens: tokens, low: math.MaxInt64, peak: math.MinInt64}

	// A window without tokens counts as 0, and so bounds the low and the peak.
	if int64(len(tokens)) < s.windows() {
		all.low, all.peak = 0, 0
	}

	for _, window := range all.used() {
		n := tokens[window]
		all.total = bucket.Add(all.total, n)
		all.low, all.peak = min(all.low, n), max(all.peak, n)
	}

	return all
}

// used returns the windows that have tokens, in order.
func (s series) used() []int64 { return slices.Sorted(maps.Keys(s.tokens)) }

// columns returns the value of each column: the tokens of its window, or the mean
// of the windows merged in it.
func (s series) columns(l layout) []float64 {
	values := make([]float64, l.columns)
	for _, window := range s.used() {
		// Merged windows share a column, and others may have several.
		first := l.column(window)
		for column := first; column < first+max(l.repeat, 1); column++ {
			values[column] += float64(s.tokens[window])
		}
	}

	if l.merged() {
		for column := range values {
			values[column] /= float64(l.size(column))
		}
	}
	return values
}

// title returns lines with the limit, its total and its peak.
func (s series) title(width int, style tty.Style) []string {
	at := s.peakTime()
	if len("peak "+tty.Amount(s.limit, s.peak)+at) > width {
		at = ""
	}
	return wrap([]string{
		style.Green(printable(s.limit)),
		style.Dim("total ") + tty.Amount(s.limit, s.total),
		style.Dim("peak ") + tty.Amount(s.limit, s.peak) + style.Dim(at),
	}, "  ", width)
}

// peakTime returns the time of the first window with the peak, or "" if the peak
// is 0.
func (s series) peakTime() string {
	for _, window := range s.used() {
		if s.tokens[window] == s.peak && s.peak != 0 {
			return " at " + s.label(window)
		}
	}
	return ""
}
