package bucket

import "math"

// A rate with a Window is a quota: it fills in steps. Between two boundaries of
// the window nothing accrues, and at each boundary the balance gains the whole
// capacity. The time of a quota matters only as far as the window that contains
// it, so that callers may pass the start of the window instead.

// accruedSteps returns what the boundaries in (from, to] add.
func (r Rate) accruedSteps(from, to int64) uint128 {
	return mul(uint64(r.Window.Count(from, to)), uint64(max(r.Capacity, 0)))
}

// WaitAt returns how long a bucket that is refilled up to a time needs to cover
// deficit, zero if deficit is not positive. For a quota, that is the time until
// the boundary whose step covers the deficit. WaitAt ignores the capacity.
func WaitAt(deficit, at int64, r Rate) Millis {
	if r.Window == nil || deficit <= 0 {
		return Wait(deficit, r)
	}
	end := r.Window.After(at, steps(deficit, r.Capacity))
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
		return r.Window.After(at, steps(missing, r.Capacity))
	}
	r.Capacity = missing
	return Add(at, FillTime(r))
}

// steps returns how many steps of a capacity cover a deficit, which is positive.
func steps(deficit, capacity int64) int64 {
	if capacity <= 0 {
		return math.MaxInt64
	}
	return (deficit-1)/capacity + 1
}

// Resize returns the tokens of a quota whose capacity changes in the same window:
// they move by the difference, but a lower capacity does not take them below zero.
// The part of the difference that it cannot take, because it was spent, is the
// excess. A higher capacity gives nothing for the excess, since capacities that go
// down and up would mint tokens.
func Resize(tokens, excess, before, after int64) (int64, int64) {
	if after < before {
		moved := Sub(tokens, Sub(before, after))
		kept := max(moved, min(tokens, 0))
		return kept, Add(excess, Sub(kept, moved))
	}
	gained := Sub(after, before)
	return Add(tokens, max(0, Sub(gained, excess))), max(0, Sub(excess, gained))
}

// Rewind returns the tokens of a quota whose windows change, and perhaps its capacity:
// it keeps them, up to the capacity. As for Resize, the excess is the part of a lower
// capacity that does not lower the tokens. A higher one gives nothing.
func Rewind(tokens, excess, before, after int64) (int64, int64) {
	kept := min(tokens, after)
	return kept, max(0, Sub(Add(excess, Sub(before, after)), Sub(tokens, kept)))
}

// Repay returns the tokens and the excess of a quota after a give-back of what was
// taken under a higher capacity. It pays debt first, then the excess.
func Repay(tokens, excess, amount int64) (int64, int64) {
	paid := min(excess, max(0, Add(amount, min(tokens, 0))))
	return Add(tokens, Sub(amount, paid)), Sub(excess, paid)
}
