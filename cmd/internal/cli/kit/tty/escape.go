package tty

import (
	"strconv"
	"strings"
	"unicode"
)

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
