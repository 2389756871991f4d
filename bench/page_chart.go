package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of a chart in pixels.
const (
	chartWidth  = 760
	chartLabels = 300 // width of the names at the left
	chartBar    = 16
	chartGap    = 10
	chartTop    = 34
	chartMargin = 90 // for long names
)

// chart returns the latency of a table's rows as SVG: a bar from p50 to p99 on
// a logarithmic axis, with a mark at p95. Colors follow the reader's theme.
func (t *pageTable) chart() string {
	low, high := math.Inf(1), 0.0
	for _, r := range t.rows {
		low, high = min(low, r.p50), max(high, r.p99)
	}

	axis := newLogAxis(low, high)
	height := chartTop + len(t.rows)*(chartBar+chartGap) + 10

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%d 0 %d %d" role="img" aria-label="%s">`,
		-chartMargin, chartWidth+chartMargin+chartGap, height,
		html.EscapeString("Latency of "+t.source.title+": p50 to p99"))
	b.WriteString(chartStyle)
	axis.draw(&b, height)

	for i, r := range t.rows {
		drawRow(&b, axis, r, float64(chartTop+i*(chartBar+chartGap)))
	}

	b.WriteString("</svg>\n")
	return b.String()
}

const chartStyle = `<style>text{font:12px system-ui,sans-serif;fill:#24292f}.tick{fill:#57606a}` +
	`.grid{stroke:#d0d7de}.bar{fill:#54aeff}.mark{stroke:#0a3069;stroke-width:2}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9198a1}` +
	`.grid{stroke:#3d444d}.bar{fill:#1f6feb}.mark{stroke:#f0f6fc}}</style>`

// logAxis maps nanoseconds to pixels. Its ends are powers of ten.
type logAxis struct{ from, to float64 }

func newLogAxis(low, high float64) logAxis {
	// A time of 0 has no logarithm, so the axis begins at 1 ns.
	from, to := math.Floor(math.Log10(max(low, 1))), math.Ceil(math.Log10(max(high, 1)))
	// Ends that are equal would leave no width to divide by.
	return logAxis{from, max(to, from+1)}
}

func (a logAxis) at(ns float64) float64 {
	const right = 20
	share := (math.Log10(max(ns, 1)) - a.from) / (a.to - a.from)
	return chartLabels + share*(chartWidth-chartLabels-right)
}

func (a logAxis) draw(b *strings.Builder, height int) {
	for exp := a.from; exp <= a.to; exp++ {
		ns := math.Pow(10, exp)
		x := a.at(ns)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+
			`<text class="tick" x="%.1f" y="16" text-anchor="middle">%s</text>`,
			x, chartTop-12, x, height-6, x, shortTime(ns))
	}
}

func drawRow(b *strings.Builder, a logAxis, r pageRow, y float64) {
	label := fmt.Sprintf("%s, %s", r.what, callersOf(r.callers))
	fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, chartLabels-10, y+chartBar-4,
		html.EscapeString(label))

	begin, end, mark := a.at(r.p50), a.at(r.p99), a.at(r.p95)
	// A bar of equal percentiles must still be visible.
	fmt.Fprintf(b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2"><title>%s</title></rect>`,
		begin, y, max(2, end-begin), chartBar,
		html.EscapeString(fmt.Sprintf("p50 %s, p95 %s, p99 %s", shortTime(r.p50), shortTime(r.p95), shortTime(r.p99))))

	fmt.Fprintf(b, `<line class="mark" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, mark, y, mark, y+chartBar)
}
