package calendar

// gap records units that a clock skips: the unit with number after is followed by
// one that is later by units+1.
type gap struct{ after, units int64 }

// The search for gaps begins before every change of a clock. At its end, clocks
// follow a yearly rule or none, and a rule for summer does not skip a day.
const (
	firstGap = -62_135_596_800 // 0001-01-01T00:00:00Z
	lastGap  = 7_258_118_400   // 2200-01-01T00:00:00Z
)

// findGaps returns the units that a clock skips, in order.
func findGaps(u Unit, c clock) []gap {
	var gaps []gap
	offset, change := c.offset(firstGap)
	for change < lastGap {
		ahead, until := c.offset(change)
		// A clock that goes forward by less than a step cannot skip one.
		if ahead-offset >= c.grain {
			before, after := u.of(c.latest(change-1)), u.of(c.latest(change))
			if skipped := after - before - 1; skipped > 0 {
				gaps = append(gaps, gap{after: before, units: skipped})
			}
		}

		offset, change = ahead, until
	}
	return gaps
}
