// Package plot draws usage snapshots as charts in a terminal.
package plot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/guptarohit/asciigraph"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// chart is a series laid out on columns.
type chart struct {
	series
	layout layout
	values []float64 // by column
	axis   axis
	labels int // width of the labels of the axis
}

func newChart(s series, l layout, labels int) chart {
	values := s.columns(l)
	return chart{s, l, values, newAxis(slices.Min(values), slices.Max(values)), labels}
}

// offset is the width that asciigraph adds to a label: a space before it, a space
// after it and the tick.
const offset = 3

// margin returns the width left of the first column.
func margin(labels int) int { return labels + offset }

func (c chart) draw(width int, style tty.Style) []string {
	var lines []string
	for _, line := range c.title(width-1, style) {
		lines = append(lines, " "+line)
	}

	for i, line := range strings.Split(c.plot(), "\n") {
		// asciigraph draws with characters of several bytes.
		runes := []rune(line)
		edge := margin(c.labels)
		lines = append(lines, style.Dim(string(runes[:edge]))+c.paint(i, string(runes[edge:]), style))
	}

	return append(lines, style.Dim(c.ruler()), style.Dim(c.times()))
}

// plot draws the line with asciigraph. It sets no width, since asciigraph would
// interpolate. It passes the first value twice: asciigraph draws from each value
// to the next, so every column ends at its own value. Bounds on ticks keep rows at
// the values of their labels and avoid an empty range for a flat line. All labels
// have one width, which fixes the width of the chart.
func (c chart) plot() string {
	return asciigraph.Plot(
		slices.Concat(c.values[:1], c.values),
		asciigraph.Height(c.axis.height()),
		asciigraph.LowerBound(c.axis.bottom),
		asciigraph.UpperBound(c.axis.top),
		asciigraph.Offset(offset),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%*s", c.labels, c.axis.label(v)) }),
	)
}

// paint colours the line, red below 0, and marks 0 unless it is at the bottom.
func (c chart) paint(row int, line string, style tty.Style) string {
	colour := style.Green
	if row > c.axis.zero() {
		colour = style.Red
	}

	// At the bottom, the ruler marks 0 already.
	if row != c.axis.zero() || row == c.axis.height() {
		return colour(line)
	}

	// The mark of 0 fills the cells that the line leaves free.
	var b strings.Builder
	for rest := fmt.Sprintf("%-*s", c.layout.columns, line); rest != ""; {
		drawn := strings.TrimLeft(rest, " ")
		free := len(rest) - len(drawn)
		drawn, _, _ = strings.Cut(drawn, " ")
		b.WriteString(style.Dim(strings.Repeat("┈", free)) + colour(drawn))
		rest = rest[free+len(drawn):]
	}

	return b.String()
}

// ticks returns the windows whose time is shown, the most important first.
func (c chart) ticks() []int64 { return []int64{c.first, c.last, c.first + c.windows()/2} }

// ruler returns the line below the chart, with a mark at every tick.
func (c chart) ruler() string {
	line := []rune(strings.Repeat("─", c.layout.columns))
	for _, window := range c.ticks() {
		line[c.layout.column(window)] = '┬'
	}
	return strings.Repeat(" ", margin(c.labels)-1) + "└" + string(line)
}

// times returns the line below the ruler: the time of each tick that fits.
func (c chart) times() string {
	const gap = 2

	line := strings.Repeat(" ", c.layout.columns)
	for _, window := range c.ticks() {
		label := c.label(window)
		begin := max(0, min(c.layout.column(window)-len(label)/2, c.layout.columns-len(label)))
		end := begin + len(label)

		// A chart of few columns is narrower than the time of an hour.
		line += strings.Repeat(" ", max(0, end-len(line)))

		// The most important times come first, so a time that would touch an
		// earlier one is left out.
		if strings.TrimSpace(line[max(0, begin-gap):min(len(line), end+gap)]) == "" {
			line = line[:begin] + label + line[end:]
		}
	}

	return strings.Repeat(" ", margin(c.labels)) + strings.TrimRight(line, " ")
}

// maxWidth is the maximum width of a chart. It bounds the memory of a chart.
const maxWidth = 1000

// Usage draws snapshots, which may be in any order. It draws a heading for each
// entity, resource and window, and below it a chart for each limit: a line over
// time, or a bar if there is only one window. All bars of a limit have one scale.
// Windows without a snapshot count as 0. If there are more windows than columns, a
// column is the mean of several. Every line ends in a newline and has at most
// width columns; charts need 40 and are cut below that. Without snapshots, Usage
// returns "".
func Usage(snapshots []limiter.UsageSnapshot, width int, style tty.Style) string {
	width = min(max(width, 0), maxWidth)

	var b strings.Builder
	all := groups(snapshots)
	full := newScale(all)

	for i, g := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, line := range g.draw(width, full, style) {
			b.WriteString(tty.Ellipsis(line, width) + "\n")
		}
	}
	return b.String()
}

// grouped inserts commas between groups of three digits.
func grouped(digits string) string {
	end := strings.IndexByte(digits, '.')
	if end < 0 {
		end = len(digits)
	}

	// The sign is no digit: -100000 must not become -,100,000.
	begin := len(digits) - len(strings.TrimPrefix(digits, "-"))
	for i := end - 3; i > begin; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// printable replaces characters that no valid name has. A damaged name must not
// move the cursor.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// wrap joins parts to lines of at most width columns. A wider part gets a line of
// its own.
func wrap(parts []string, separator string, width int) []string {
	var lines []string
	for _, part := range parts {
		if last := len(lines) - 1; last >= 0 && tty.Width(lines[last]+separator+part) <= width {
			lines[last] += separator + part
			continue
		}
		lines = append(lines, part)
	}
	return lines
}
