package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// frame draws a snapshot in at most height lines, none wider than width.
func (o *topOptions) frame(v snapshot, trouble error, width, height int) []string {
	name, clock := "zae-limiter top", v.at.UTC().Format(time.TimeOnly)+" UTC, every "+o.interval.String()
	title := tty.Ellipsis("   "+strings.TrimPrefix(o.Location(), "in "), max(0, width-len(name)-len(clock)-1))
	lines := []string{
		o.Style.Bold(name) + o.Style.Dim(tty.Left(title, width-len(name)-len(clock))) + o.Style.Bold(clock),
	}

	chosen := o.view.choose(v.gauges)
	about := o.view.about(v.buckets, len(v.gauges), len(chosen))

	switch {
	case trouble != nil:
		about = o.Style.Red("not read: ") + tty.Visible(kit.Shorten(trouble.Error()))
	// The line belongs to the filter while the user types it.
	case v.cut && !o.view.typing:
		about = o.Style.Yellow(o.cutText())
	}

	lines = append(lines, about, "")

	switch {
	case o.view.help:
		lines = append(lines, o.keyTable(width)...)
	case len(v.gauges) == 0:
		lines = append(lines, "There are no buckets: nothing was used lately.")
	case len(chosen) == 0:
		lines = append(lines, "No limit contains "+kit.Text(o.view.filter).Display+"; / chooses another filter.")
	default:
		// One line is the heading of the table.
		room := height - len(lines) - 1
		o.view.scroll(len(chosen), room)
		lines = append(lines, o.gaugeTable(chosen[o.view.skip:], width, room)...)
	}

	for i := range lines {
		lines[i] = tty.Ellipsis(lines[i], width)
	}

	return lines[:min(len(lines), max(height, 0))]
}

// keyTable draws what the keys do.
func (o *topOptions) keyTable(width int) []string {
	const indent = 15
	var lines []string
	for _, key := range topHelp {
		for i, line := range strings.Split(tty.Wrap(key[1], max(width-indent, 1)), "\n") {
			name := ""
			if i == 0 {
				name = key[0]
			}
			lines = append(lines, "  "+o.Style.Bold(tty.Left(name, indent-2))+line)
		}
	}
	return lines
}

// gaugeTable draws a heading and as many gauges as fit.
func (o *topOptions) gaugeTable(gauges []gauge, width, room int) []string {
	cells := 12
	if width >= 100 {
		cells = 24
	}

	columns := []tty.Column{
		{Title: "ENTITY"},
		{Title: "RESOURCE"},
		{Title: "LIMIT"},
		{Title: "MISSING", Whole: true},
		{Title: "AVAILABLE", Right: true, Whole: true},
		{Title: "REFILL", Right: true, Whole: true, Spare: true},
		{Title: "FULL IN", Right: true, Whole: true},
	}

	shadow := slices.ContainsFunc(gauges, func(g gauge) bool { return g.limit.IsShadow })
	if shadow {
		// The mark of a shadow limit is at the end of its name, where a text is
		// cut.
		columns[2].Whole = true
		columns = append(columns, tty.Column{Title: "WOULD REFUSE", Right: true, Whole: true, Keep: true})
	}

	var rows [][]string
	for _, g := range gauges[:min(len(gauges), max(room, 0))] {
		available := tty.Amount(g.limit.Name, g.available()) + "/" + tty.Amount(g.limit.Name, g.limit.Capacity)
		if g.tokens < 0 {
			available = o.Style.Red(available)
		}

		name := kit.Text(g.limit.Name).Display
		if g.limit.IsShadow {
			name += " (shadow)"
		}

		row := []string{
			kit.Text(g.entity).Display, kit.Text(g.resource).Display, name,
			o.barOf(g, cells), available, kit.Rate(g.limit).Display, fullIn(g.status).Display,
		}

		if shadow {
			row = append(row, g.refusedCell().Display)
		}
		rows = append(rows, row)
	}
	return tty.Table(columns, rows, width, o.Style)
}

// barOf draws what is missing from the capacity, or says that calls are refused
// anyway.
func (o *topOptions) barOf(g gauge, cells int) string {
	if g.off != nil {
		return o.Style.Red("disabled")
	}
	return tty.Bar(g.available(), g.limit.Capacity, cells, o.Style)
}
