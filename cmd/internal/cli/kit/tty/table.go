package tty

import (
	"slices"
	"strings"
)

// Column describes a column of a [Table].
type Column struct {
	Title string
	Right bool // align right, as numbers
	Whole bool // never cut
	Spare bool // leave out before anything is cut
	Keep  bool // leave out last
}

// gap separates columns.
const gap = "  "

// Table lays out rows below the titles of their columns, with no line wider than
// width. If width is too small, it drops spare columns, the last one first, then
// cuts the widest texts. If that does not suffice, it drops columns from the end,
// and cuts texts only as far as the remaining ones need. In the end it shows the
// dropped columns for which there is room. Cells may be coloured and have no line
// breaks.
func Table(columns []Column, rows [][]string, width int, style Style) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Width(c.Title)
		for _, row := range rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}

	shown := fitting(columns, widths, width)
	columns, widths = chosen(columns, shown), chosen(widths, shown)

	// The rows belong to the caller.
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i] = chosen(rows[i], shown)
	}

	widths = squeeze(columns, widths, width)

	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.Title
	}

	lines := []string{style.Bold(tableLine(columns, widths, titles, width))}
	for _, row := range rows {
		lines = append(lines, tableLine(columns, widths, row, width))
	}
	return lines
}

// fitting chooses the columns that fit into width. A column that was dropped before
// a wider one is shown if there is room for it in the end.
func fitting(columns []Column, widths []int, width int) []bool {
	shown := slices.Repeat([]bool{true}, len(columns))

	for i := len(columns) - 1; i >= 0 && total(chosen(widths, shown)) > width; i-- {
		shown[i] = !columns[i].Spare
	}

	least := func() int { return total(squeeze(chosen(columns, shown), chosen(widths, shown), width)) }
	// A cut number would be misread, so whole columns are dropped instead.
	for len(chosen(columns, shown)) > 1 && least() > width {
		shown[leastNeeded(columns, shown)] = false
	}

	for i := range shown {
		if !shown[i] {
			shown[i] = true
			shown[i] = total(chosen(widths, shown)) <= width
		}
	}
	return shown
}

// chosen returns a copy of a list with the chosen elements.
func chosen[T any](list []T, shown []bool) []T {
	var some []T
	for i, v := range list {
		if shown[i] {
			some = append(some, v)
		}
	}
	return some
}

// total returns the width of a line with columns of these widths.
func total(widths []int) int {
	sum := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// leastNeeded returns the index of the column to drop next: the last one that is
// shown and need not be kept, or else the last one.
func leastNeeded(columns []Column, shown []bool) int {
	last := -1

	// The first column names the row, so it always stays.
	for i := len(columns) - 1; i > 0; i-- {
		if shown[i] && !columns[i].Keep {
			return i
		}
		if shown[i] && last < 0 {
			last = i
		}
	}
	return max(last, 0)
}

// squeeze returns widths with the widest columns narrowed until a line fits into
// width, if that is possible.
func squeeze(columns []Column, widths []int, width int) []int {
	const minWidth = 6
	widths = slices.Clone(widths)

	for total(widths) > width {
		widest := -1
		for i, c := range columns {
			if !c.Whole && widths[i] > minWidth && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}

		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func tableLine(columns []Column, widths []int, cells []string, width int) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(gap)
		}

		// A number is never cut, since the rest would be another number.
		if c.Right {
			b.WriteString(Right(cells[i], widths[i]))
		} else {
			b.WriteString(Left(Ellipsis(cells[i], widths[i]), widths[i]))
		}
	}

	// Columns that cannot be narrowed may still be too wide.
	return Ellipsis(strings.TrimRight(b.String(), " "), width)
}

// Ellipsis cuts text that is wider than width and marks the cut with "…".
func Ellipsis(text string, width int) string {
	if Width(text) <= width || width < 1 {
		return Clip(text, width)
	}
	return Clip(text, width-1) + "…"
}

// Left pads text on its right.
func Left(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-Width(text)))
}

// Right pads text on its left.
func Right(text string, width int) string {
	return strings.Repeat(" ", max(0, width-Width(text))) + text
}

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
