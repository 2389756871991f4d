package plot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// title holds what the snapshots of a group have in common.
type title struct {
	entity, resource string
	window           limiter.Window
}

var windows = []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}

// compare orders titles by entity, resource and length of the window.
func (t title) compare(other title) int {
	return cmp.Or(
		cmp.Compare(t.entity, other.entity), cmp.Compare(t.resource, other.resource),
		cmp.Compare(slices.Index(windows, t.window), slices.Index(windows, other.window)),
		cmp.Compare(t.window, other.window),
	)
}

// heading returns the title in at most width columns. The resource gets at most
// half of them, and the entity what is left.
func (t title) heading(width int) string {
	end := "  " + tty.Ellipsis(printable(t.resource), width/2) + "  " + printable(string(t.window))
	return tty.Ellipsis(printable(t.entity), max(width-tty.Width(end), 1)) + end
}

// group holds the snapshots that are drawn under one heading. It stores only
// windows that have a snapshot, so that a long span costs nothing.
type group struct {
	title
	seen   map[int64]bool             // by window
	limits map[string]map[int64]int64 // tokens by limit and window
}

func groups(snapshots []limiter.UsageSnapshot) []*group {
	byTitle := map[title]*group{}
	for _, s := range snapshots {
		t := title{s.Entity, s.Resource, s.Window}
		g := byTitle[t]
		if g == nil {
			g = &group{title: t, seen: map[int64]bool{}, limits: map[string]map[int64]int64{}}
			byTitle[t] = g
		}
		g.add(s)
	}

	return slices.SortedFunc(maps.Values(byTitle), func(a, b *group) int { return a.compare(b.title) })
}

func (g *group) add(s limiter.UsageSnapshot) {
	window := windowAt(s.Window, s.Start)
	g.seen[window] = true

	for limit, n := range s.Counters {
		if g.limits[limit] == nil {
			g.limits[limit] = map[int64]int64{}
		}
		g.limits[limit][window] = bucket.Add(g.limits[limit][window], n)
	}
}

func (g *group) span() span {
	seen := slices.Collect(maps.Keys(g.seen))
	return span{g.window, slices.Min(seen), slices.Max(seen)}
}

func (g *group) draw(width int, full scale, style tty.Style) []string {
	lines := []string{style.Bold(g.heading(width))}
	if !slices.Contains(windows, g.window) {
		return append(lines, `nothing to draw: a window is "hourly", "daily" or "monthly"`)
	}

	if len(g.limits) == 0 {
		lines = append(lines, "nothing to draw: no limit was used")
		return append(lines, g.foot(layout{}, width, style)...)
	}

	if g.single() {
		return append(append(lines, g.bars(width, full, style)...), g.foot(layout{}, width, style)...)
	}

	var all []series
	for _, limit := range slices.Sorted(maps.Keys(g.limits)) {
		all = append(all, newSeries(limit, g.limits[limit], g.span()))
	}

	labels := labelWidth(all)
	columns := newLayout(g.span(), width-margin(labels))
	for _, s := range all {
		lines = append(lines, newChart(s, columns, labels).draw(width, style)...)
		lines = append(lines, "")
	}

	return append(lines, g.foot(columns, width, style)...)
}

// foot returns lines that describe the time drawn.
func (g *group) foot(columns layout, width int, style tty.Style) []string {
	s := g.span()
	parts := []string{s.String(), s.count(s.windows())}

	if gaps := s.windows() - int64(len(g.seen)); gaps > 0 {
		parts = append(parts, tty.Number(gaps)+" without a snapshot")
	}

	if columns.merged() {
		parts = append(parts, "each column is the mean of about "+s.about(columns.each()))
	}

	lines := wrap(parts, " · ", width)
	for i := range lines {
		lines[i] = style.Dim(lines[i])
	}
	return lines
}
