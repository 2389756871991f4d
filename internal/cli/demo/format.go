package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// compact is a number in at most five characters: 950, 4.2k, -12k.
func compact(n int64) string {
	switch size := max(n, -n); {
	case size < 1000:
		return strconv.FormatInt(n, 10)
	case size < 10_000 && n%1000 != 0:
		return strconv.FormatFloat(float64(n/100)/10, 'f', 1, 64) + "k"
	}
	return strconv.FormatInt(n/1000, 10) + "k"
}

// seconds is a time with one digit after the point: 1.2s.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// Glyphs of a bar, and the eighths of its last cell.
const (
	barFull  = "█"
	barDebt  = "▒"
	barEmpty = "·"
)

var barParts = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar shows how much of capacity is available, or how much is owed.
func bar(available, capacity int64, width int, style tty.Style) string {
	size := min(max(available, -available), capacity)
	eighths := int(float64(size) / float64(capacity) * float64(width) * 8)
	if available < 0 {
		cells := min((eighths+7)/8, width)
		return style.Red(strings.Repeat(barDebt, max(cells, 1))) + style.Dim(strings.Repeat(barEmpty, width-max(cells, 1)))
	}
	filled := strings.Repeat(barFull, eighths/8) + barParts[eighths%8]
	rest := style.Dim(strings.Repeat(barEmpty, width-tty.Width(filled)))
	if available*4 < capacity {
		return style.Yellow(filled) + rest
	}
	return style.Green(filled) + rest
}
