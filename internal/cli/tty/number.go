package tty

import (
	"fmt"
	"strconv"
	"strings"
)

// Number groups the digits: 12,345.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Thousandths is a number of thousandths as a decimal fraction: 12,345.5.
func Thousandths(n int64) string {
	whole, sign := n/1000, ""
	if n < 0 && whole == 0 {
		sign = "-"
	}
	text := fmt.Sprintf("%s%s.%03d", sign, Number(whole), max(n%1000, -(n%1000)))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
