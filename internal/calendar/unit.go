package calendar

import "time"

// Unit selects the length of a window.
type Unit uint8

// The units. A week begins on Monday, as in ISO 8601.
const (
	Hour Unit = 1 + iota
	Day
	Week
	Month
	Year
)

// String returns the name of a unit in lower case, such as "month".
func (u Unit) String() string {
	switch u {
	case Hour:
		return "hour"
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	case Year:
		return "year"
	default:
		return "unknown unit"
	}
}

// The Monday of the week of 1 January 1970, as a day since then.
const firstMonday = -3

// grain returns the length in seconds of the steps in which a clock counts for u:
// hours for Hour, and days for the other units, which are made of days.
func (u Unit) grain() int64 {
	if u == Hour {
		return 3600
	}
	return secondsPerDay
}

// of returns the number of the unit that step lies in. Steps and units count from
// 1970, except for years and months, which count from year 0.
func (u Unit) of(step int64) int64 {
	switch u {
	case Week:
		return floorDiv(step-firstMonday, 7)
	case Month:
		year, month, _ := date(step)
		return int64(year)*12 + int64(month) - 1
	case Year:
		year, _, _ := date(step)
		return int64(year)
	default:
		return step
	}
}

// first returns the first step of unit i.
func (u Unit) first(i int64) int64 {
	switch u {
	case Week:
		return i*7 + firstMonday
	case Month:
		year := floorDiv(i, 12)
		return day(year, time.Month(i-year*12+1))
	case Year:
		return day(i, time.January)
	default:
		return i
	}
}

// date returns the date of a day since 1970.
func date(d int64) (int, time.Month, int) { return time.Unix(d*secondsPerDay, 0).UTC().Date() }

// day returns the first day of a month as a day since 1970.
func day(year int64, month time.Month) int64 {
	return time.Date(int(year), month, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

// floorDiv divides and rounds toward minus infinity. The divisor is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
