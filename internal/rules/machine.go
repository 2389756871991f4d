package rules

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Machine is the clock that all callers of an embedded store share. It limits how
// far a store sweeps, and detects a bucket whose time a caller with a wrong clock
// has moved far ahead.
type Machine struct {
	// Clock replaces time.Now in tests.
	Clock func() time.Time
}

func (m *Machine) now() int64 {
	if m.Clock == nil {
		return time.Now().UnixMilli()
	}
	return m.Clock().UnixMilli()
}

// Horizon returns the time up to which a store may sweep for a caller whose time
// is now. It is never after the machine's own time: a caller whose clock is far
// ahead must not remove data that others need.
func (m *Machine) Horizon(now int64) int64 { return min(now, m.now()) }

// SweepJump is how far, in milliseconds, the next sweep may be ahead of a caller.
// A larger distance means that a clock far ahead has planned it.
const SweepJump = 24 * 3600 * 1000

// Agreement is the largest difference, in milliseconds, between the clocks of a
// caller and the machine for the two to agree.
const Agreement = 2000

// Local returns the time of a call on the bucket's own clock, and by how much to
// pull the bucket back first, usually 0.
//
// For a caller that agrees with the machine, a bucket is ahead by its longest
// fill time at most. One jump of a clock mints at most a full bucket, and waiting
// for that time pays it back.
//
// A caller that is ahead of the machine sees a pulled-back bucket in its own
// time, as it left it. Otherwise one caller would fill the bucket that another
// pulls back, again and again.
func (m *Machine) Local(b *Bucket, now int64) (local, back int64) {
	ahead := bucket.Sub(b.At, now)
	// Two callers that agree with the machine differ by twice Agreement at
	// most, so a bucket that is ahead by less is no sign of a wrong clock. Once
	// it was pulled back, its time also depends on the caller.
	if ahead <= 2*Agreement && b.Pulled == 0 {
		return now, 0
	}

	clock := m.now()
	switch off := bucket.Sub(now, clock); {
	// The caller is ahead of the machine. It sees a pulled-back bucket as much
	// earlier as that was moved, or it would refill the bucket again. The result is
	// never before the machine's own time, which this caller has passed.
	case off > Agreement:
		return max(clock, bucket.Sub(now, b.Pulled)), 0
	// A caller behind the machine must not pull the bucket back: it would mint
	// with its slow clock. A bucket that is ahead by little needs no pull.
	case off < -Agreement || ahead <= 2*Agreement:
		return now, 0
	}

	// A jump fills a bucket at most once, and the longest fill time refills as
	// much. So a bucket that waits for that long has paid the jump back. Limits
	// that have left wait for the same time.
	longest := longestFill(b.Account.Limits)
	for _, v := range b.Left {
		longest = max(longest, longestFill([]limiter.Limit{v.Limit}))
	}
	return now, max(0, bucket.Sub(ahead, longest))
}

// PullBack moves the bucket's own time back by what [Machine.Local] returned.
func (b *Bucket) PullBack(by int64) {
	if by == 0 {
		return
	}

	b.At -= by
	// Rates that have left have times of their own, which must not be after the
	// bucket's.
	b.Left = slices.Clone(b.Left)
	for i := range b.Left {
		b.Left[i].At = min(b.Left[i].At, b.At)
	}

	b.Pulled = bucket.Add(b.Pulled, by)
	b.extend()
}
