package dynamo

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A machine whose clock is ahead refills a bucket ahead of time, and then the
// bucket stands still for all other machines. Every reply of the table has a
// date, in whole seconds. It was written between the moments at which the
// request was sent and the reply received:
//
//	date <= table time < date + 1 s
//
// So each reply bounds the table's time from both sides. All bounds refer to the
// steady clock of the process, which no step of the machine's clock moves. Their
// intersection is soon narrower than a second.
//
// A frozen or cached date stops while the steady clock goes on, so its bounds
// contradict each other after a second. Therefore bounds are evidence only once
// the date has moved, a second has passed, and no bound contradicts another.
// After a contradiction it takes longer.

const (
	defaultClockGuard = 2 * time.Second
	// dateStep is the resolution of a date.
	dateStep = time.Second
	// dateError is how far the dates of two servers may disagree.
	dateError = 200 * time.Millisecond
	// fading divides the age of a bound into the amount by which it loosens: the
	// steady clock may run fast or slow while the machine corrects its clock.
	fading = 10
	// calmTime and calmReplies are how long and how many replies have to agree
	// after a contradiction.
	calmTime    = time.Minute
	calmReplies = 20
	// maxStep is how far the machine's clock may leave the steady one before the
	// store asks the table for its date.
	maxStep = time.Second
)

// reading is one look at the clocks of this machine.
type reading struct {
	wall   time.Time
	steady time.Duration // since the store was made
}

// origin returns the machine's time, since 1970, at which the steady clock
// began.
func (r reading) origin() time.Duration { return time.Duration(r.wall.UnixNano()) - r.steady }

// tableClock estimates the table's time from the dates of replies. It is safe for
// concurrent use.
type tableClock struct {
	guard time.Duration // negative to correct nothing

	mu         sync.Mutex
	header     string        // the last date
	date       time.Duration // the same, since 1970
	low, high  time.Duration // bounds of the table's time at the origin of the steady clock
	first      time.Duration // the first date that they rest on; 0 if there is none
	since      time.Duration // steady time of its reply
	replies    int           // that agree since
	sure       bool          // later dates have confirmed them
	shaken     bool          // a reply has contradicted earlier ones
	seen       time.Duration // steady time of the last reply
	machine    time.Duration // origin by the machine's clock at the last reply
	correcting bool

	inForce atomic.Int64 // the correction of the last call, in milliseconds
}

// observe takes over the date of a reply.
func (c *tableClock) observe(header string, sent, received reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if header != c.header {
		date, err := http.ParseTime(header)
		if err != nil {
			return
		}
		c.header, c.date = header, time.Duration(date.UnixNano())
	}
	c.narrow(c.date-dateError-received.steady, c.date+dateStep+dateError-sent.steady, received.steady)
	c.machine = received.origin()
}

// narrow intersects the bounds with those of a reply received at a steady time.
// If nothing is left, it starts anew with the reply.
func (c *tableClock) narrow(low, high, at time.Duration) {
	loss := max(0, at-c.seen) / fading
	c.seen = max(c.seen, at)
	both := [2]time.Duration{max(low, c.low-loss), min(high, c.high+loss)}
	if c.first == 0 || both[0] >= both[1] {
		c.shaken = c.first != 0
		c.low, c.high, c.first, c.since, c.replies = low, high, c.date, at, 1
		c.sure, c.correcting = false, false
		return
	}
	c.low, c.high = both[0], both[1]
	c.replies++
	c.sure = c.sure || c.confirmed(at-c.since)
}

// confirmed reports whether replies that agree for a time are evidence. Once some
// have contradicted each other, it takes more of them.
func (c *tableClock) confirmed(agreed time.Duration) bool {
	if c.shaken && (agreed < calmTime || c.replies < calmReplies) {
		return false
	}
	return c.date > c.first && agreed >= dateStep
}

// correction returns what to add to the machine's time, usually 0. It begins once
// the machine's clock is surely off by more than the guard, and ends once it is
// surely off by less.
func (c *tableClock) correction(r reading) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high := c.low-r.origin(), c.high-r.origin()
	switch {
	case !c.sure || c.guard < 0 || -c.guard <= low && high <= c.guard:
		c.correcting = false
	case beyond(c.guard, low, high):
		c.correcting = true
	}
	var by time.Duration
	if c.correcting {
		by = low + (high-low)/2
	}
	c.inForce.Store(by.Milliseconds())
	return by
}

// doubtful reports whether one date alone says that the machine's clock is off by
// more than the guard.
func (c *tableClock) doubtful(r reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard >= 0 && c.first != 0 && !c.sure && beyond(c.guard, c.low-r.origin(), c.high-r.origin())
}

// stepped reports whether the machine's clock has left the steady one since the
// last reply, because it was set, or because the machine has slept. It reports
// each step once.
func (c *tableClock) stepped(r reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := r.origin() - c.machine
	if c.guard < 0 || !c.sure || -maxStep <= by && by <= maxStep {
		return false
	}
	c.machine = r.origin()
	return true
}

// beyond reports whether all offsets from low to high exceed a guard.
func beyond(guard, low, high time.Duration) bool { return low > guard || high < -guard }

// estimate returns how far the table's time is ahead of the machine's, within
// plus or minus margin. Without evidence, known is false and the others are 0.
func (c *tableClock) estimate(r reading) (offset, margin time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sure {
		return 0, 0, false
	}
	margin = (c.high - c.low) / 2
	return c.low + margin - r.origin(), margin, true
}
