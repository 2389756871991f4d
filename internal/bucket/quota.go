package bucket

import "math"

// A rate with a Window is a quota: it fills in steps. Between two boundaries of
// the window nothing accrues, and at each boundary the balance gains the whole
// capacity. The time of a quota matters only as far as the window that contains
// it, so that callers may pass the start of the window instead.
//
// What is used of a window is the capacity less the tokens. A change of capacity
// moves the tokens by the difference, so that the use stays. A boundary carries over
// what was used above the largest capacity of the window, its peak: it adds the peak.

// accruedSteps returns what the boundaries in (from, to] add.
func (r Rate) accruedSteps(from, to int64) uint128 {
	n := r.Window.Count(from, to)
	// The first boundary adds the peak, where that is above the capacity, and
	// each later one the capacity.
	if n == 0 {
		return uint128{}
	}

	capacity := max(r.Capacity, 0)
	return mul(uint64(n), uint64(capacity)).add(uint64(max(r.Peak, capacity) - capacity))
}

// WaitAt returns how long a bucket that is refilled up to a time needs to cover
// deficit, zero if deficit is not positive. For a quota, that is the time until
// the boundary whose step covers the deficit. WaitAt ignores the capacity.
func WaitAt(deficit, at int64, r Rate) Millis {
	if r.Window == nil || deficit <= 0 {
		return Wait(deficit, r)
	}

	end := r.Window.After(at, r.steps(deficit))
	// A boundary beyond the range of time is as good as none.
	if end == math.MaxInt64 {
		return Millis{uint128{lo: math.MaxInt64}}
	}

	return Millis{uint128{lo: uint64(Sub(end, at))}}
}

// FullAt returns when a bucket with tokens at a time is full if nothing more is
// taken, rounded up to whole milliseconds, at most math.MaxInt64.
func FullAt(tokens, at int64, r Rate) int64 {
	missing := Sub(r.Capacity, tokens)

	switch {
	case missing <= 0:
		return at
	case r.Window != nil:
		return r.Window.After(at, r.steps(missing))
	}

	r.Capacity = missing
	return Add(at, FillTime(r))
}

// steps returns how many boundaries cover a deficit, which is positive.
func (r Rate) steps(deficit int64) int64 {
	// The first boundary adds at least the peak.
	if deficit <= r.Peak {
		return 1
	}
	if r.Capacity <= 0 {
		return math.MaxInt64
	}

	// What the first boundary adds above the capacity does not count for the
	// others.
	deficit -= max(r.Peak, r.Capacity) - r.Capacity
	return (deficit-1)/r.Capacity + 1
}
