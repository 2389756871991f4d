package calendar

import (
	"math"
	"time"
)

const secondsPerDay = 86_400

// maxOffset is greater than the distance in seconds of any local clock from UTC.
// The greatest in the database is just below 16 hours.
const maxOffset = 2 * secondsPerDay

// clock shows local time in steps of grain seconds: hours, or days, whose number is
// then a date.
type clock struct {
	zone  *time.Location
	grain int64
}

// latest returns the latest step that the clock has shown up to sec, which is not
// the step that it shows just after it went back.
func (c clock) latest(sec int64) int64 {
	offset, _ := c.offset(sec)
	step := floorDiv(sec+offset, c.grain)
	// A clock that went back shows an earlier step, but the later one has
	// begun.
	for c.reach(step+1) <= sec {
		step++
	}
	return step
}

// reach returns the first second in which the clock shows step or a later one.
func (c clock) reach(step int64) int64 {
	// Before this second, no clock in the world has reached the step.
	mark := step * c.grain
	sec := mark - maxOffset

	for {
		offset, until := c.offset(sec)
		// The step begins in this period if the clock reaches it before the
		// period ends. A clock that skips the step reaches it at the start of a
		// period.
		if at := max(sec, mark-offset); at < until {
			return at
		}
		sec = until
	}
}

// offset returns how many seconds the clock is ahead of UTC at sec, and a later
// second until which that holds.
func (c clock) offset(sec int64) (offset, until int64) {
	at := time.Unix(sec, 0).In(c.zone)

	_, seconds := at.Zone()
	_, end := at.ZoneBounds()
	until = end.Unix()
	// ZoneBounds returns no end for the last period of a zone.
	if end.IsZero() {
		until = math.MaxInt64
	}

	if until <= sec {
		// In years that only a rule describes, ZoneBounds ends a zone after 365 days
		// of the year. On the last day of a leap year, that is in the past.
		until = (floorDiv(sec, secondsPerDay) + 1) * secondsPerDay
	}
	return int64(seconds), until
}
