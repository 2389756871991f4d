package httplimit

import "strconv"

// maxInteger is the largest integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// appendInteger appends n as an integer of a structured field, from 0 to
// maxInteger.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendString appends s as a string of a structured field. Characters that such
// a string cannot hold become "?".
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
