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
// and cuts texts only as far as the remaining ones need. Cells may be coloured and
// have no line breaks.
func Table(columns []Column, rows [][]string, width int, style Style) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Width(c.Title)
		for _, row := range rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	drop := func(i int) {
		columns, widths = without(columns, i), without(widths, i)
		rows = slices.Clone(rows)
		for j := range rows {
			rows[j] = without(rows[j], i)
		}
	}
	for i := len(columns) - 1; i >= 0 && total(widths) > width; i-- {
		if columns[i].Spare {
			drop(i)
		}
	}
	for len(columns) > 1 && total(squeeze(columns, widths, width)) > width { // a cut number would be misread
		drop(leastNeeded(columns))
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

// without returns a copy of a list without one element.
func without[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// total returns the width of a line with columns of these widths.
func total(widths []int) int {
	sum := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// leastNeeded returns the index of the column to drop next: the last one, or the
// last that need not be kept.
func leastNeeded(columns []Column) int {
	for i := len(columns) - 1; i > 0; i-- {
		if !columns[i].Keep {
			return i
		}
	}
	return len(columns) - 1
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
		if c.Right {
			b.WriteString(Right(cells[i], widths[i]))
		} else {
			b.WriteString(Left(Ellipsis(cells[i], widths[i]), widths[i]))
		}
	}
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
