package llm

import (
	"bytes"
	"strconv"
	"unicode"
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

// Bounds of a string that is compared with words.
const (
	maxWord    = 64                      // bytes of a word
	maxWritten = maxWord * len(`\u0000`) // as written
)

// word returns the text of a string of valid JSON that may be a word, given without
// its quotes, in room if it has escapes. It returns nil for a string that is longer
// than any word.
func word(room *[maxWritten]byte, quoted []byte) []byte {
	if bytes.IndexByte(quoted[:min(len(quoted), maxWritten)], '\\') >= 0 && len(quoted) <= maxWritten {
		quoted, _ = unquote(room[:0], quoted)
	}
	if len(quoted) > maxWord {
		return nil
	}
	return quoted
}

// isWord reports whether a string of valid JSON, given without its quotes, is a word
// of at most maxWord bytes.
func isWord(quoted []byte, want string) bool {
	if len(quoted) < len(want) || len(quoted) > len(want)*len(`\u0000`) {
		return false
	}
	var room [maxWritten]byte
	return string(word(&room, quoted)) == want
}

// beginning appends the first characters of a string of valid JSON, given without its
// quotes, to dst, as far as its capacity allows. It leaves out what parsers of URLs
// skip: spaces in front, and control characters.
func beginning(dst, quoted []byte) []byte {
	const longest = len(`\u0000`) // bytes of a character are fewer
	for len(quoted) > 0 && cap(dst)-len(dst) >= longest {
		_, n := utf8.DecodeRune(quoted)
		if quoted[0] == '\\' {
			n = len(`\n`)
			if quoted[1] == 'u' {
				n = len(`\u0000`)
			}
		}

		start := len(dst)
		// Half of a pair becomes a character that is part of no URL, too.
		dst, _ = unquote(dst, quoted[:n])
		quoted = quoted[n:]

		r, _ := utf8.DecodeRune(dst[start:])
		if r < ' ' || r == 0x7f || start == 0 && (unicode.IsSpace(r) || r == '\ufeff') {
			dst = dst[:start]
		}
	}
	return dst
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
