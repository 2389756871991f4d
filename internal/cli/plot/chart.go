package plot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/guptarohit/asciigraph"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// chart is one series on its columns.
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

// offset is the tick and two spaces before it, of which one is before the label.
const offset = 3

// margin is the width of everything left of the first column.
func margin(labels int) int { return labels + offset }

func (c chart) draw(width int, style tty.Style) []string {
	var lines []string
	for _, line := range c.title(width-1, style) {
		lines = append(lines, " "+line)
	}
	for i, line := range strings.Split(c.plot(), "\n") {
		runes := []rune(line)
		edge := margin(c.labels)
		lines = append(lines, style.Dim(string(runes[:edge]))+c.paint(i, string(runes[edge:]), style))
	}
	return append(lines, style.Dim(c.ruler()), style.Dim(c.times()))
}

// plot leaves asciigraph no choice. It is not given a width, since it would
// interpolate. It draws the way from each value to the next, so the first one is
// given twice for every column to end at its own. Bounds on ticks keep its rows
// at the values it labels them with, and keep a flat line off a range of nothing.
// Labels of one width keep that of the chart.
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

// paint colours the line, red below 0, and shows where 0 is if that is not at
// the bottom.
func (c chart) paint(row int, line string, style tty.Style) string {
	colour := style.Green
	if row > c.axis.zero() {
		colour = style.Red
	}
	if row != c.axis.zero() || row == c.axis.height() {
		return colour(line)
	}
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

// ticks are the windows whose time is shown, the one that can be missed at the
// end.
func (c chart) ticks() []int64 { return []int64{c.first, c.last, c.first + c.windows()/2} }

// ruler is the line below the chart, with a mark at every tick.
func (c chart) ruler() string {
	line := []rune(strings.Repeat("─", c.layout.columns))
	for _, window := range c.ticks() {
		line[c.layout.column(window)] = '┬'
	}
	return strings.Repeat(" ", margin(c.labels)-1) + "└" + string(line)
}

// times is the line below the ruler: the time of each tick that has room.
func (c chart) times() string {
	const gap = 2
	line := strings.Repeat(" ", c.layout.columns)
	for _, window := range c.ticks() {
		label := c.label(window)
		begin := max(0, min(c.layout.column(window)-len(label)/2, c.layout.columns-len(label)))
		end := begin + len(label)
		line += strings.Repeat(" ", max(0, end-len(line)))
		if strings.TrimSpace(line[max(0, begin-gap):min(len(line), end+gap)]) == "" {
			line = line[:begin] + label + line[end:]
		}
	}
	return strings.Repeat(" ", margin(c.labels)) + strings.TrimRight(line, " ")
}
