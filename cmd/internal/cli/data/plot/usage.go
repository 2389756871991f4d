// Package plot draws usage snapshots as charts in a terminal.
package plot

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

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
