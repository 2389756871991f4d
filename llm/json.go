package llm

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// skipSpace returns the position of the first byte from at on that is no space.
func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t') {
		at++
	}
	return at
}

// skipValue returns the end of the value that starts at a position of valid JSON,
// and the number of lists, objects and further elements in it.
func skipValue(text []byte, at int) (end, elements int) {
	for depth := 0; ; {
		switch text[at] {
		case '"':
			at = skipString(text, at)
		case '{', '[':
			depth++
			elements++
			at++
		case '}', ']':
			depth--
			at++
		case ',':
			elements++
			at++
		case ':', ' ', '\n', '\r', '\t':
			at++
		default:
			at = skipWord(text, at)
		}
		if depth == 0 {
			return at, elements
		}
	}
}

// skipWord returns the end of the number, true, false or null that starts at a
// position of valid JSON.
func skipWord(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case ',', ']', '}', ' ', '\n', '\r', '\t':
			return at
		}
	}
	return at
}

// skipString returns the end of the string that starts at a position of valid
// JSON.
func skipString(text []byte, at int) int {
	for at++; ; at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
}

// unquote appends the text of a string of valid JSON, given without its quotes, to
// dst. It returns false if the string has half of a surrogate pair, which becomes
// U+FFFD as in encoding/json.
func unquote(dst, quoted []byte) (text []byte, whole bool) {
	whole = true
	for {
		at := bytes.IndexByte(quoted, '\\')
		if at < 0 {
			return append(dst, quoted...), whole
		}

		dst = append(dst, quoted[:at]...)
		c := quoted[at+1]
		quoted = quoted[at+2:]

		if c != 'u' {
			dst = append(dst, unescape(c))
			continue
		}

		r := hexRune(quoted)
		quoted = quoted[4:]

		// A surrogate stands for half of a character. If the other half does
		// not follow, what follows is read for itself.
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if bytes.HasPrefix(quoted, []byte(`\u`)) {
				pair = utf16.DecodeRune(r, hexRune(quoted[2:]))
			}
			if r = pair; r == utf8.RuneError {
				whole = false
			} else {
				quoted = quoted[6:]
			}
		}

		dst = utf8.AppendRune(dst, r)
	}
}

// unescape returns the character that an escape of one letter stands for.
func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// hexRune returns the number that the first four digits of valid JSON stand for.
func hexRune(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16)
	return rune(n)
}
