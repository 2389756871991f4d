package plot

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// grouped inserts commas between groups of three digits.
func grouped(digits string) string {
	end := strings.IndexByte(digits, '.')
	if end < 0 {
		end = len(digits)
	}

	// The sign is no digit: -100000 must not become -,100,000.
	begin := len(digits) - len(strings.TrimPrefix(digits, "-"))
	for i := end - 3; i > begin; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// printable replaces characters that no valid name has. A damaged name must not
// move the cursor.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// wrap joins parts to lines of at most width columns. A wider part gets a line of
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
