package exact

import "time"

// Horizon is the time up to which a store may sweep: the callers' time, but not
// beyond what this machine takes for now. A caller whose clock is far ahead
// must not make the store forget what others still need. It only decides when
// rows are removed, never what a call answers.
type Horizon struct {
	// Clock is the machine's unless a test sets another.
	Clock func() time.Time
}

// At is how far to sweep for a caller whose time is now, in milliseconds.
func (h Horizon) At(now int64) int64 {
	clock := h.Clock
	if clock == nil {
		clock = time.Now
	}
	return min(now, clock().UnixMilli())
}

// SweepJump is how far behind its next sweep a caller's time must be for the
// plan to be wrong: a clock that was ahead has made it. In milliseconds.
const SweepJump = 24 * 3600 * 1000
