package escrow

import "time"

// tick is one moment by two clocks: the caller's, in milliseconds, and the
// machine's.
type tick struct {
	now     int64
	machine time.Duration
}

// within reports whether a hold that began at a moment lasts by both clocks. It also
// ends when the caller's clock goes back. But callers read their clocks before they
// get the lock, so that a later one may come with an earlier time. A step back of
// up to an eighth of the hold therefore does not count.
func (t tick) within(hold time.Duration, from tick) bool { return holdFrom(from, hold).has(t) }

// period is a span of time by two clocks.
type period struct {
	from, until int64 // by the caller's clock
	machine     time.Duration
}

// holdFrom returns the period in which a hold has not ended.
func holdFrom(at tick, hold time.Duration) period {
	const disorder = 8
	ms := hold.Milliseconds()
	return period{at.now - ms/disorder, at.now + ms, at.machine + hold}
}

func (p period) has(t tick) bool { return t.machine < p.machine && t.now >= p.from && t.now < p.until }
