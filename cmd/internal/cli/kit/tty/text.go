package tty

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Number formats a number with grouped digits: 12,345.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	// The sign is cut from the text, since the smallest int64 has no negation.
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}

	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Amount formats a number of tokens of a limit with grouped digits, or of money,
// such as $1,250.50.
func Amount(limit string, n int64) string {
	if !figure.IsMoney(limit) {
		return Number(n)
	}

	whole, cents, _ := strings.Cut(figure.Dollars(n), ".")
	sign, digits, _ := strings.Cut(whole, "$")
	if dollars, err := strconv.ParseInt(digits, 10, 64); err == nil {
		digits = Number(dollars)
	}
	return sign + "$" + digits + "." + cents
}

// Thousandths formats a number of thousandths as a decimal fraction: 12,345.5.
func Thousandths(n int64) string {
	whole, sign := n/1000, ""

	// -500 thousandths are -0.5, but -500/1000 is 0, which has no sign.
	if n < 0 && whole == 0 {
		sign = "-"
	}

	text := fmt.Sprintf("%s%s.%03d", sign, Number(whole), max(n%1000, -(n%1000)))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Bytes formats a size: "812 B", "3.4 MB".
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return strconv.FormatInt(n, 10) + " B"
	}

	size, units := float64(n)/step, "KMGT"
	for size >= step && len(units) > 1 {
		size, units = size/step, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[:1] + "B"
}

// Duration formats a duration in minutes and seconds: "3 s", "2 min 5 s".
func Duration(d time.Duration) string {
	seconds := int64(d.Round(time.Second) / time.Second)
	if seconds < 60 {
		return strconv.FormatInt(seconds, 10) + " s"
	}
	return strconv.FormatInt(seconds/60, 10) + " min " + strconv.FormatInt(seconds%60, 10) + " s"
}

// Printable escapes characters that are not printable, such as \t and \u200b, and
// backslashes, so that the result is unambiguous.
func Printable(s string) string {
	return escaped(s, func(r rune) bool { return r == '\\' || isOdd(r) })
}

// Visible escapes characters that are not printable in a message. It leaves
// backslashes alone, since quoted parts are escaped already.
func Visible(s string) string { return escaped(s, isOdd) }

// isOdd reports whether a character is not printable. A range over a text yields
// the replacement character for a byte that is not UTF-8.
func isOdd(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

func escaped(s string, odd func(rune) bool) string {
	if !strings.ContainsFunc(s, odd) {
		return s
	}

	var b strings.Builder
	for _, r := range s {
		if !odd(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Wrap breaks the lines of a text between words, or inside a word that is wider
// than width. The rest of an indented line has the same indent, up to half of
// width.
func Wrap(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, wrapLine(line, max(width, 1))...)
	}
	return strings.Join(out, "\n")
}

func wrapLine(line string, width int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	indent = indent[:min(len(indent), width/2)]
	room := width - len(indent)

	lines := []string{""}
	for word := range strings.FieldsSeq(line) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case Width(*last)+1+Width(word) <= room:
			*last += " " + word
		default:
			lines = append(lines, word)
		}

		for Width(lines[len(lines)-1]) > room {
			head, rest := split(lines[len(lines)-1], room)
			// A single character may be wider than the line.
			if rest == "" {
				break
			}
			lines = append(lines[:len(lines)-1], head, rest)
		}
	}

	for i := range lines {
		lines[i] = indent + lines[i]
	}
	return lines
}

// split splits text after as many characters as fit, at least one.
func split(text string, width int) (head, rest string) {
	at := 0
	for at < len(text) {
		size, visible := next(text[at:])
		if width -= visible; width < 0 && at > 0 {
			break
		}
		at += size
	}
	return text[:at], text[at:]
}

// Wait formats a wait for a table, as figure.Wait does. Seconds always have a
// decimal, so that a column that is redrawn does not jump.
func Wait(d time.Duration) string {
	if d <= figure.LongestInTenths {
		return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	}
	return figure.Wait(d)
}
