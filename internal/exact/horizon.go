package exact

import "time"

// Horizon is the time up to which a store may sweep. It follows the callers'
// time, but no faster than real time passes: a caller whose clock is far ahead
// must not make the store forget what others still need. It only decides when
// rows are removed, never what a call answers.
type Horizon struct {
	at   int64 // milliseconds; 0 before the first call
	seen time.Time
	// Clock is the real one unless a test sets another.
	Clock func() time.Time
}

// Advance moves the horizon toward now and returns it. The first call only
// marks the beginning.
func (h *Horizon) Advance(now int64) int64 {
	clock := h.Clock
	if clock == nil {
		clock = time.Now
	}
	seen := clock()
	if h.at != 0 {
		now = min(now, h.at+max(0, seen.Sub(h.seen).Milliseconds()))
	}
	h.at, h.seen = now, seen
	return now
}
