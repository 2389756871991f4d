package loadtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Report describes a test to readers: its result and how it was run.
type Report struct {
	Result
	Classes    []string  // of the users
	Load       string    // such as "20 users, 10 started a second"
	Store      string    // such as "sqlite:limits.db"
	Version    string    // of the program
	Seed       uint64    // of random choices
	Started    time.Time // when the test began
	Conditions []Condition
}

// String returns a sentence: whether more was admitted than the limits allow,
// and how much.
func (p Promise) String() string {
	switch {
	case p.Checks == 0:
		return "Admitted never exceeded allowed: nothing was admitted."
	case p.Broken == 0:
		return fmt.Sprintf("Admitted never exceeded allowed: %s, checked %s.", counted(p.Limits, "limit"),
			counted(p.Checks, "time"))
	}
	return fmt.Sprintf("Admitted exceeded allowed in %s of %s, by up to %s tokens: limit %s of entity %s and "+
		"resource %s.",
		groupDigits(p.Broken), counted(p.Checks, "check"), thousandths(p.Excess), p.Limit, p.Entity, p.Resource)
}

// counted returns a number with its noun.
func counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return groupDigits(n) + " " + noun
}

// groupDigits formats a number with grouped digits, such as 12,345.
func groupDigits(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// thousandths formats a number of thousandths, such as 1.5.
func thousandths(n int64) string {
	text := fmt.Sprintf("%s.%03d", groupDigits(n/1000), max(n%1000, -(n%1000)))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Rate formats a number a second: three digits, or the whole number if it has
// more.
func Rate(f float64) string {
	if f >= 100 || f == math.Trunc(f) {
		return groupDigits(int64(math.Round(f)))
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// Latency formats a latency with three digits and a unit, such as 12.3ms or
// 1.25s.
func Latency(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		// A latency that rounds to a unit has that unit: 999.6us is 1ms.
		if value := float64(d) / float64(unit.size); value >= 0.9995 || unit.size == time.Microsecond && d > 0 {
			// With three digits, the format g would write 1000 as 1e+03.
			if value >= 99.95 {
				return strconv.FormatFloat(value, 'f', 0, 64) + unit.name
			}
			return strconv.FormatFloat(value, 'g', 3, 64) + unit.name
		}
	}
	return "0"
}
