package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// plainNumbers returns a JSON text whose whole numbers with a fraction or an
// exponent are written with digits alone: JSON Schema takes 2.0 and 2e3 for whole
// numbers, and encoding/json does not. It leaves other numbers as they are.
func plainNumbers(text []byte) []byte {
	if !bytes.ContainsAny(text, ".eE") {
		return text
	}

	var out []byte
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			end = stringEnd(text, i)
			out = append(out, text[i:end]...)
		case c == '-' || c >= '0' && c <= '9':
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			out = append(out, plainNumber(string(text[i:end]))...)
		default:
			out = append(out, c)
		}
		i = end
	}
	return out
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

// plainNumber returns a whole number of at most 19 digits with digits alone, and
// any other number unchanged.
func plainNumber(number string) string {
	// The digits of 007 or 1. would make a number of what is not JSON.
	if !json.Valid([]byte(number)) {
		return number
	}

	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift := 0
	if hasExponent {
		n, err := strconv.Atoi(exponent)
		// Without a bound, the few bytes of 1e999999999 would ask for a
		// gigabyte of zeros.
		if err != nil || n < -64 || n > 64 {
			return number
		}
		shift = n
	}

	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	digits := whole + fraction
	// 12.5e1 has the digits 125, and its decimal point after three of them.
	point := len(whole) + shift
	if zeros := point - len(digits); zeros > 0 {
		digits += strings.Repeat("0", zeros)
	}
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	// A digit other than 0 behind the point is a fraction.
	if strings.Trim(digits[point:], "0") != "" {
		return number
	}

	// An int64 has 19 digits at most.
	const most = 19
	digits = strings.TrimLeft(digits[:point], "0")
	switch {
	case digits == "":
		return "0"
	case len(digits) > most:
		return number
	}
	return sign + digits
}
