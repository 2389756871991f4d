package locust

import "math"

// Below these response times in milliseconds, Locust keeps whole milliseconds,
// tens and hundreds; above, thousands.
const (
	belowOnes     = 100
	belowTens     = 1000
	belowHundreds = 10_000
)

// roundResponse rounds a response time in milliseconds as Locust does for its
// histogram: to about two digits, and a half to the even neighbour.
func roundResponse(ms float64) int64 {
	switch {
	case ms < belowOnes:
		return roundTo(ms, 1)
	case ms < belowTens:
		return roundTo(ms, 10)
	case ms < belowHundreds:
		return roundTo(ms, 100)
	default:
		return roundTo(ms, 1000)
	}
}

// roundTo rounds to a multiple of unit. It compares the remainder, which is
// exact, since a quotient could be rounded to a half.
func roundTo(ms, unit float64) int64 {
	rest := math.Mod(ms, unit)
	whole := ms - rest
	above := rest > unit/2
	odd := math.Mod(whole/unit, 2) != 0
	if above || rest == unit/2 && odd {
		whole += unit
	}
	return int64(whole)
}
