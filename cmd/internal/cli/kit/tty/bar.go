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

// Bar draws the used part of a capacity, in the colours of the dashboard: green
// below a half, yellow below four fifths, then red. A debt fills the bar with
// another glyph.
func Bar(available, capacity int64, width int, style Style) string {
	if available < 0 {
		return style.Red(strings.Repeat(BarDebt, width))
	}

	used := float64(max(0, capacity-available)) / float64(capacity)
	// Parts of an eighth are dropped, so that only an empty bucket has a full bar.
	eighths := int(used * float64(width) * 8)
	filled := strings.Repeat(BarFull, eighths/8) + barParts[eighths%8]
	rest := style.Dim(strings.Repeat(barEmpty, width-Width(filled)))

	switch {
	case used < 0.5:
		return style.Green(filled) + rest
	case used < 0.8:
		return style.Yellow(filled) + rest
	}
	return style.Red(filled) + rest
}
