package dynamo

import "time"

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
