package tty

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
