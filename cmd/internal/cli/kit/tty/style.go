// Package tty writes to terminals: colour, width, and frames that are redrawn
// in place.
package tty

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Style colours text if it is true.
type Style bool

// StyleFromEnv returns true, unless NO_COLOR is set, as https://no-color.org asks,
// or the terminal is dumb.
func StyleFromEnv() Style { return Style(os.Getenv("NO_COLOR") == "" && CanRedraw()) }

// Bold returns bold text.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim returns dim text.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Red returns red text.
func (s Style) Red(text string) string { return s.wrap("31", text) }

// Green returns green text.
func (s Style) Green(text string) string { return s.wrap("32", text) }

// Yellow returns yellow text.
func (s Style) Yellow(text string) string { return s.wrap("33", text) }

func (s Style) wrap(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Width returns the number of columns of a line. Colours take none, wide
// characters two.
func Width(line string) int {
	n := 0
	for line != "" {
		size, visible := next(line)
		line = line[size:]
		n += visible
	}
	return n
}

// Clip cuts a line to at most width columns and keeps its colours.
func Clip(line string, width int) string {
	if Width(line) <= width {
		return line
	}

	var b strings.Builder
	for line != "" {
		size, visible := next(line)

		// Colours beyond the cut are kept, since the last of them ends the
		// others.
		if width -= visible; width >= 0 || visible == 0 {
			b.WriteString(line[:size])
		}
		line = line[size:]
	}
	return b.String()
}

// next returns the length in bytes of the first character or colour of a line,
// and its number of columns.
func next(line string) (size, visible int) {
	if strings.HasPrefix(line, "\x1b[") {
		if end := strings.IndexByte(line, 'm'); end > 0 {
			return end + 1, 0
		}
	}

	// Most text is ASCII, which needs no search for the end of a character.
	if line[0] < utf8.RuneSelf {
		return 1, 1
	}

	// A character may be several runes, such as a letter and its accent.
	cluster, _, width, _ := uniseg.FirstGraphemeClusterInString(line, -1)
	return len(cluster), width
}
