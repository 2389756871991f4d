package bucket

import (
	"math"
	"time"
)

// Millis is a waiting time in whole milliseconds, of 128 bits because a slow
// refill of a large deficit takes that long. Longer ones are as long as fits.
type Millis struct{ n uint128 }

// IsZero tells whether there is nothing to wait for.
func (m Millis) IsZero() bool { return m.n.isZero() }

// Seconds is the nearest float64 of the exact number, divided once.
func (m Millis) Seconds() float64 { return m.n.float64() / Milli }

// Duration is the time as a Duration, or the longest Duration there is.
func (m Millis) Duration() time.Duration {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	if m.n.hi > 0 || m.n.lo > most {
		return math.MaxInt64
	}
	return time.Duration(m.n.lo) * time.Millisecond
}
