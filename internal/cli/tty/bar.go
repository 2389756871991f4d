package tty

import "strings"

// Glyphs of a bar.
const (
	BarFull  = "█"
	BarDebt  = "▒"
	barEmpty = "·"
)

// barParts are the eighths of the last cell of a bar.
var barParts = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bar draws the available part of a capacity, yellow below a quarter, or the debt
// in red.
func Bar(available, capacity int64, width int, style Style) string {
	size := min(max(available, -available), capacity)
	eighths := int(float64(size) / float64(capacity) * float64(width) * 8)
	if available < 0 {
		cells := max(min((eighths+7)/8, width), 1)
		return style.Red(strings.Repeat(BarDebt, cells)) + style.Dim(strings.Repeat(barEmpty, width-cells))
	}
	filled := strings.Repeat(BarFull, eighths/8) + barParts[eighths%8]
	rest := style.Dim(strings.Repeat(barEmpty, width-Width(filled)))
	if float64(available)*4 < float64(capacity) {
		return style.Yellow(filled) + rest
	}
	return style.Green(filled) + rest
}
