// Package plot draws usage snapshots as charts in a terminal.
package plot

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// widest is where charts stop growing, so that no width costs much memory.
const widest = 1000

// Usage draws snapshots, which may be in any order: a heading for each entity,
// resource and window, and below it a chart for each limit: a line over time, or
// a bar where there is one window only, by which bars of the same limit under
// other headings can be compared. Windows between the first and the last that have no snapshot count as 0. Where there are more
// windows than columns, a column is the mean of several. Every line ends in a
// newline and takes at most width columns: charts want 40 and are cut below.
// Without snapshots it is "".
func Usage(snapshots []limiter.UsageSnapshot, width int, style tty.Style) string {
	width = min(max(width, 0), widest)
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
