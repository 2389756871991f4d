package plot

import (
	"math"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// number groups the digits: 12,345.
func number(n int64) string { return grouped(strconv.FormatInt(n, 10)) }

// grouped sets a comma between thousands.
func grouped(digits string) string {
	end := strings.IndexByte(digits, '.')
	if end < 0 {
		end = len(digits)
	}
	begin := len(digits) - len(strings.TrimPrefix(digits, "-"))
	for i := end - 3; i > begin; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// add is a + b, or the limit of an int64 beyond it.
func add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// printable replaces what no name has: a damaged one must neither move the
// cursor nor be wider than it looks.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// shorten cuts text to a width, and shows that it did: part of a number must not
// be taken for one.
func shorten(text string, width int) string {
	switch {
	case tty.Width(text) <= width:
		return text
	case width < 1:
		return ""
	}
	return tty.Clip(text, width-1) + "…"
}

// wrap joins parts to lines of at most width. A part that is wider has a line of
// its own.
func wrap(parts []string, separator string, width int) []string {
	var lines []string
	for _, part := range parts {
		if last := len(lines) - 1; last >= 0 && tty.Width(lines[last]+separator+part) <= width {
			lines[last] += separator + part
			continue
		}
		lines = append(lines, part)
	}
	return lines
}
