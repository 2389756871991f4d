package rules

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Machine is the clock of the machine that all callers of an embedded store
// share. It decides how far a store may sweep, and what becomes of a bucket
// whose time a caller with another clock has put far ahead.
type Machine struct {
	// Clock is the machine's unless a test sets another.
	Clock func() time.Time
}

func (m *Machine) now() int64 {
	if m.Clock == nil {
		return time.Now().UnixMilli()
	}
	return m.Clock().UnixMilli()
}

// Horizon is the time up to which a store may sweep for a caller whose time is
// now: not beyond what this machine takes for now. A caller whose clock is far
// ahead must not make the store forget what others still need.
func (m *Machine) Horizon(now int64) int64 { return min(now, m.now()) }

// SweepJump is how far behind its next sweep a caller's time must be for the
// plan to be wrong: a clock that was ahead has made it. In milliseconds.
const SweepJump = 24 * 3600 * 1000

// Agreement is how far a caller's time may be from the machine's for the two to
// agree. In milliseconds.
const Agreement = 2000

// Local is the time of a call in the terms of a bucket, and by how much the
// bucket is to be pulled back first, usually by nothing.
//
// A caller who agrees with the machine does not wait for a time that was never
// true: a bucket that lies further ahead than its longest fill time counts as
// ahead by that fill time. One jump of a clock mints at most a full bucket, so
// that time pays back all of it.
//
// A caller who is ahead of the machine finds a bucket that was pulled back where
// it left it, in its own time. Else the two would take turns, the one filling
// the bucket that the other pulls back.
func (m *Machine) Local(b *Bucket, now int64) (local, back int64) {
	ahead := bucket.Sub(b.At, now)
	if ahead <= 2*Agreement && b.Pulled == 0 { // callers who agree may be this far from each other
		return now, 0
	}
	clock := m.now()
	switch off := bucket.Sub(now, clock); {
	case off > Agreement:
		return max(clock, bucket.Sub(now, b.Pulled)), 0
	case off < -Agreement || ahead <= 2*Agreement:
		return now, 0
	}
	return now, max(0, bucket.Sub(ahead, longestFill(b.Account.Limits)))
}

// PullBack moves the bucket's own time back, as [Machine.Local] says.
func (b *Bucket) PullBack(by int64) {
	if by == 0 {
		return
	}
	b.At -= by
	b.Pulled = bucket.Add(b.Pulled, by)
	b.renew()
}
