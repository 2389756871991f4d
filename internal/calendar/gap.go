package calendar

import "math"

// gap records units that a clock skips: after unit number after follows a unit that
// is later by units+1.
type gap struct{ after, units int64 }

// lastGap ends the search for gaps. After it, clocks follow a yearly rule or none,
// and a rule for summer does not move a clock by a day.
const lastGap = 7_258_118_400 // 2200-01-01T00:00:00Z

// findGaps returns the units that a clock skips, in order.
func findGaps(u Unit, c clock) []gap {
	var gaps []gap
	for sec := int64(firstSecond); ; {
		_, until := c.offset(sec)
		if until == math.MaxInt64 || until > lastGap {
			return gaps
		}
		before, after := u.of(c.latest(until-1)), u.of(c.latest(until))
		if after > before+1 {
			gaps = append(gaps, gap{after: before, units: after - before - 1})
		}
		sec = until
	}
}

// firstSecond is before every change of a clock.
const firstSecond = -62_135_596_800 // 0001-01-01T00:00:00Z
