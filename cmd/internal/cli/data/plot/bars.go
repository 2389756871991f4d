package plot

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// scale is shared by all groups that are drawn as bars, so that bars of one limit
// can be compared.
type scale struct {
	full           map[string]int64 // the largest amount, by limit
	names, numbers int              // widths left of the bars
}

func newScale(all []*group) scale {
	s := scale{full: map[string]int64{}}
	for _, g := range all {
		// A group of several windows is drawn as charts, with axes of their own.
		if !g.single() {
			continue
		}

		for limit, tokens := range g.limits {
			for _, n := range tokens {
				s.full[limit] = max(s.full[limit], size(n))
				s.names, s.numbers = max(s.names, tty.Width(printable(limit))),
					max(s.numbers, tty.Width(tty.Amount(limit, n)))
			}
		}
	}
	return s
}

// size returns the absolute value of n; for the smallest int64, the largest one.
func size(n int64) int64 {
	if n >= 0 {
		return n
	}
	return max(-n, -(n + 1))
}

// single reports whether the group has only one window, which is drawn as bars.
func (g *group) single() bool { return len(g.seen) == 1 }

// bars draws a bar for each limit of a single window, red below 0.
func (g *group) bars(width int, s scale, style tty.Style) []string {
	const glyph, minRoom = "█", 8
	room := max(width-len("   ")-s.names-s.numbers-len("  "), minRoom)

	var lines []string
	for _, limit := range slices.Sorted(maps.Keys(g.limits)) {
		// A single window has exactly one amount.
		for _, n := range g.limits[limit] {
			colour, cells := style.Green, 0
			if n < 0 {
				colour = style.Red
			}

			// The smallest amount has a cell, so that it can be seen.
			if n != 0 {
				cells = max(1, int(float64(size(n))/float64(s.full[limit])*float64(room)))
			}

			lines = append(lines,
				" "+style.Green(
					tty.Left(printable(limit), s.names),
				)+"  "+tty.Right(tty.Amount(limit, n), s.numbers)+"  "+colour(strings.Repeat(glyph, cells)))
		}
	}
	return append(lines, "")
}
