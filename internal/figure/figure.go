// Package figure writes and reads figures for people: amounts of tokens, money
// and waits. Money is counted in millionths of a dollar.
package figure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// spend is the name of a limit of money.
const spend = "spend"

// Cent is a cent in millionths of a dollar.
const Cent = 10_000

// IsMoney reports whether a limit counts millionths of a dollar: its name is spend,
// or begins with spend and one of "_", "." and "-", such as spend_daily.
func IsMoney(limit string) bool {
	rest, found := strings.CutPrefix(limit, spend)
	return found && (rest == "" || strings.IndexByte("_.-", rest[0]) >= 0)
}

// CentWarning returns the warning about a limit of money whose amounts are all below
// a cent, which is mostly a mistake: without a dollar sign, a number may count
// millionths. It returns "" for other limits. The warning shows text for the limit,
// and how to write dollars.
func CentWarning(limit, text, how string, amounts ...int64) string {
	if !IsMoney(limit) || slices.Max(amounts) >= Cent {
		return ""
	}
	return text + " is below a cent; if you mean dollars, give them with their sign, " + how
}

// Amount formats a number of tokens of a limit, such as 10000, or of money, such
// as $12.50.
func Amount(limit string, n int64) string {
	if IsMoney(limit) {
		return Dollars(n)
	}
	return strconv.FormatInt(n, 10)
}

// Dollars formats millionths of a dollar with two decimals, or up to six where
// they are needed, such as $12.50 and $0.000125.
func Dollars(millionths int64) string {
	// The amount is unsigned, since the smallest int64 has no positive
	// counterpart.
	sign, n := "", uint64(millionths)
	if millionths < 0 {
		sign, n = "-", -n
	}

	cents := fmt.Sprintf("%06d", n%1_000_000)
	return fmt.Sprintf("%s$%d.%s%s", sign, n/1_000_000, cents[:2], strings.TrimRight(cents[2:], "0"))
}

// Decimal formats millionths of a dollar as a number of dollars in as few digits
// as possible, such as 12.5 and 0.000125.
func Decimal(millionths int64) string {
	text := strings.Replace(Dollars(millionths), "$", "", 1)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Period formats the period of a rate in the largest unit that divides it, as a
// limit has it on the command line, such as min, 5min and day.
func Period(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}, {"sec", time.Second}} {
		switch {
		case d == unit.size:
			return unit.name
		case d > 0 && d%unit.size == 0:
			return strconv.FormatInt(int64(d/unit.size), 10) + unit.name
		}
	}
	return d.String()
}

// LongestInTenths is the longest wait that is shown in seconds and their tenths.
const LongestInTenths = time.Minute - 100*time.Millisecond

// Wait formats a wait with its two largest units, rounded up, such as 12h, 1m30s
// and 0.5s. It ignores the millisecond that a wait contains for safety.
func Wait(d time.Duration) string {
	// The wait of a bucket is a millisecond longer than the quotient, so that a
	// refill covers the deficit. That millisecond must not round the figure up.
	if d > time.Second && d%time.Second <= time.Millisecond {
		d = d.Truncate(time.Second)
	}

	// Each bound is the longest wait that does not become a whole unit of the next
	// line when it is rounded up: 59.95s is 1m, and not 60s.
	switch {
	case d <= LongestInTenths:
		tenths := (d + 99*time.Millisecond) / (100 * time.Millisecond)
		return strings.TrimSuffix(strconv.FormatFloat(float64(tenths)/10, 'f', 1, 64), ".0") + "s"
	case d <= time.Hour-time.Second:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d <= 48*time.Hour-time.Minute:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, 24*time.Hour, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	// The whole wait is rounded up, and then divided: 1m59.5s becomes 2m, and
	// not 1m60s.
	n := int64(d / small)
	if d%small > 0 {
		n++
	}

	per := int64(large / small)
	text := strconv.FormatInt(n/per, 10) + largeName
	if rest := n % per; rest > 0 {
		text += strconv.FormatInt(rest, 10) + smallName
	}
	return text
}
