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
//
// If the machine's clock leaves the steady one, the clock was set, or the machine
// has slept and its steady clock stood still. Only the date of a later reply
// distinguishes the two. Until then the bounds prove nothing.

const (
	defaultClockGuard = 2 * time.Second
	// dateStep is the resolution of a date.
	dateStep = time.Second
	// dateError is how far the dates of two servers may disagree.
	dateError = 200 * time.Millisecond
	// fading divides the age of a bound into the amount by which it loosens: the
	// steady clock may run fast or slow while the machine corrects its clock.
	fading = 10
	// maxDrift is how far bounds loosen before one date that agrees with them is
	// too little. It keeps one date from moving a right clock past the guard.
	maxDrift = defaultClockGuard / 2
	// calmTime and calmReplies are how long and how many replies have to agree
	// after a contradiction.
	calmTime    = time.Minute
	calmReplies = 20
	// maxStep is how far the machine's clock may leave the steady one before the
	// store asks the table for its date.
	maxStep = time.Second
	// minDateYear and maxDateYear bound the dates that are plausible. A
	// time.Duration since 1970 holds all of them.
	minDateYear, maxDateYear = 2000, 2200
)

// reading is one look at the clocks of this machine.
type reading struct {
	wall   time.Time
	steady time.Duration // since the store was made
}

// origin returns the machine's time, since 1970, at which the steady clock
// began.
func (r reading) origin() time.Duration { return time.Duration(r.wall.UnixNano()) - r.steady }

// bounds are the earliest and the latest table time at the origin of the steady
// clock.
type bounds struct{ low, high time.Duration }

// loosened returns bounds that are wider by d on each side.
func (b bounds) loosened(d time.Duration) bounds { return bounds{b.low - d, b.high + d} }

// shifted returns bounds that are later by d.
func (b bounds) shifted(d time.Duration) bounds { return bounds{b.low + d, b.high + d} }

// and returns the intersection of two bounds, and false if it is empty.
func (b bounds) and(other bounds) (bounds, bool) {
	both := bounds{max(b.low, other.low), min(b.high, other.high)}
	return both, both.low < both.high
}

// agree reports whether the intersection of two bounds is not empty.
func (b bounds) agree(other bounds) bool {
	_, ok := b.and(other)
	return ok
}

// beyond reports whether all offsets within bounds exceed a guard.
func (b bounds) beyond(guard time.Duration) bool { return b.low > guard || b.high < -guard }

// within reports whether no offset within bounds exceeds a guard.
func (b bounds) within(guard time.Duration) bool { return -guard <= b.low && b.high <= guard }

// tableClock estimates the table's time from the dates of replies. It is safe for
// concurrent use.
type tableClock struct {
	// Negative to correct nothing.
	guard time.Duration

	mu     sync.Mutex
	header string        // the last date
	date   time.Duration // the same, since 1970
	table  bounds        // of the table's time
	first  time.Duration // the first date behind the bounds; 0 if there is none
	// Steady time of the reply with the first date.
	since   time.Duration
	replies int // that have agreed since
	// Later dates have confirmed the bounds.
	sure bool
	// A reply has contradicted earlier ones, and too few have agreed since.
	shaken     bool
	awaiting   bool          // a second date would confirm the bounds
	seen       time.Duration // steady time of the last reply
	machine    time.Duration // origin by the machine's clock at the last reply
	correcting bool

	inForce atomic.Int64 // the correction of the last call, in milliseconds
}

// observe takes over the date of a reply. It ignores a reply if the machine's
// clock has left the steady one since the request was sent: the date may be from
// before or after.
func (c *tableClock) observe(header string, sent, received reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stepped(received.origin()-sent.origin()) || !c.readDate(header) {
		return
	}

	reply := bounds{c.date - received.steady, c.date + dateStep - sent.steady}.loosened(dateError)
	by := received.origin() - c.machine

	switch {
	case c.first == 0:
		c.begin(reply, received.steady)
	case !stepped(by):
		c.narrow(reply, received.steady)
	// A reply from before the step was processed late. It shows nothing about
	// the step.
	case received.steady < c.seen:
		return
	default:
		c.settle(reply, by, received.steady)
	}

	c.seen = max(c.seen, received.steady)
	c.machine = received.origin()
}

// readDate parses a date unless it is the last one, and reports whether it is
// plausible.
func (c *tableClock) readDate(header string) bool {
	if header == c.header {
		return true
	}
	date, err := time.Parse(http.TimeFormat, header)

	// Parse accepts other spellings of a date, which the service never writes.
	if err != nil || date.Year() < minDateYear || date.Year() > maxDateYear || date.Format(http.TimeFormat) != header {
		return false
	}

	c.header, c.date = header, time.Duration(date.UnixNano())
	return true
}

// begin starts anew with the bounds of one reply.
func (c *tableClock) begin(reply bounds, at time.Duration) {
	c.table, c.first, c.since, c.replies = reply, c.date, at, 1

	// After a contradiction, one more date would not be enough, so no call
	// waits for it.
	c.sure, c.correcting, c.awaiting = false, false, !c.shaken
}

// narrow intersects the bounds with those of a reply received at a steady time.
// If nothing is left, it starts anew.
func (c *tableClock) narrow(reply bounds, at time.Duration) {
	drift := max(0, at-c.seen) / fading

	if both, ok := c.table.loosened(min(drift, maxDrift)).and(reply); ok {
		c.table = both
		c.confirm(at)
		return
	}

	// Within the full drift the reply may be right. Then it only starts anew,
	// and later ones need not make up for a contradiction.
	if !c.table.loosened(drift).agree(reply) {
		c.shaken = true
	}

	c.begin(reply, at)
}

// settle takes over the first reply after the machine's clock has left the steady
// one. The date agrees with the steady clock if the machine's clock was set, and
// with the machine's if the machine has slept. It may agree with both after a
// short sleep, so settle keeps the bounds of the reply alone.
func (c *tableClock) settle(reply bounds, by, at time.Duration) {
	before := c.table.loosened(min(max(0, at-c.seen)/fading, maxDrift))
	if !before.agree(reply) && !before.shifted(by).agree(reply) {
		c.begin(reply, at)
		return
	}

	c.table = reply
	c.confirm(at)
}

// confirm counts a reply that agrees with earlier ones. Replies are evidence once
// the date has moved. If some have contradicted each other, it takes more of
// them.
func (c *tableClock) confirm(at time.Duration) {
	agreed := at - c.since
	c.replies++

	// For a second, even a frozen date agrees.
	if agreed < dateStep {
		return
	}

	c.awaiting = false
	if c.date > c.first && (!c.shaken || agreed >= calmTime && c.replies >= calmReplies) {
		c.sure, c.shaken = true, false
	}
}

// stepped reports whether a difference between the machine's clock and the steady
// one is a step.
func stepped(by time.Duration) bool { return by < -maxStep || by > maxStep }

// offset returns the bounds of the difference between the table's time and the
// machine's.
func (c *tableClock) offset(r reading) bounds { return c.table.shifted(-r.origin()) }

// hasLeft reports whether the machine's clock has left the steady one since the
// last reply.
func (c *tableClock) hasLeft(r reading) bool {
	return c.first != 0 && stepped(r.origin()-c.machine)
}

// correction returns what to add to the machine's time, usually 0. It begins once
// the machine's clock is surely off by more than the guard, and ends once it is
// surely off by less. It is 0 from a step of the machine's clock until the next
// reply.
func (c *tableClock) correction(r reading) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	off := c.offset(r)

	switch {
	case !c.sure || c.guard < 0 || c.hasLeft(r) || off.within(c.guard):
		c.correcting = false
	case off.beyond(c.guard):
		c.correcting = true
	}

	var by time.Duration
	if c.correcting {
		by = off.low + (off.high-off.low)/2
	}
	c.inForce.Store(by.Milliseconds())
	return by
}

// unsettled reports whether a call should wait for a date. After a step of the
// machine's clock, any date helps. If one date alone says that the machine's
// clock is off by more than the guard, it is doubtful, and a date a second later
// helps.
func (c *tableClock) unsettled(r reading) (left, doubtful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guard < 0 {
		return false, false
	}

	left = c.hasLeft(r)
	return left, !left && c.awaiting && c.offset(r).beyond(c.guard)
}

// forget drops all bounds, unless the machine's clock agrees with the steady one.
func (c *tableClock) forget(r reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasLeft(r) {
		c.first, c.sure, c.correcting, c.awaiting = 0, false, false, false
	}
}

// estimate returns how far the table's time is ahead of the machine's, within
// plus or minus margin. Without evidence, known is false and the others are 0.
func (c *tableClock) estimate(r reading) (offset, margin time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sure || c.hasLeft(r) {
		return 0, 0, false
	}

	off := c.offset(r)
	margin = (off.high - off.low) / 2
	return off.low + margin, margin, true
}
