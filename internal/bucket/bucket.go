// Package bucket is the arithmetic of token buckets: whole numbers, time as an
// argument, no clock, no I/O.
//
// Tokens are counted in thousandths and time in milliseconds, both int64.
// Products are taken in 128 bits and quotients rounded toward minus infinity,
// so every result is exact; where an exact result does not fit into an int64
// the function says what it returns instead.
//
// There are two refills. [Advance] telescopes: however an interval is cut into
// calls, the parts add up to the whole, which is what a store needs that keeps
// the time of its last refill. [Refill] is the reference library's formula,
// kept to read and to check what that library computes; it may not be chained.
package bucket

import "math"

// Milli is how many thousandths make a token, and milliseconds a second.
const Milli = 1000

// MaxTokens is the largest number of whole tokens that fits into thousandths.
const MaxTokens = math.MaxInt64 / Milli

// Rate says how a bucket fills: Amount thousandths every Period milliseconds,
// up to Capacity. Amount and Period are positive; a Rate without them never
// refills.
type Rate struct{ Capacity, Amount, Period int64 }

// State is what a bucket held at time At. Tokens below zero are debt.
type State struct {
	Rate
	Tokens, At int64
}

// Advance refills tokens from one time to another by telescoping: it adds
// floor(to*Amount/Period) - floor(from*Amount/Period) and stops at the
// capacity. A to at or before from adds nothing. The result is never above the
// capacity, even if tokens was.
func Advance(tokens, from, to int64, r Rate) int64 {
	if to <= from || r.Amount <= 0 || r.Period <= 0 {
		return min(tokens, r.Capacity)
	}
	return addUpTo(tokens, r.accrued(from, to), r.Capacity)
}

// Accrued is what a bucket gains between two times while it is not full, as
// [Advance] counts it; math.MaxInt64 where it is more than that.
func Accrued(from, to int64, r Rate) int64 {
	if to <= from || r.Amount <= 0 || r.Period <= 0 {
		return 0
	}
	return r.accrued(from, to).clamp()
}

// accrued takes the difference of the two floors as one quotient: with m the
// remainder that from leaves, it is floor(((to-from)*Amount + m) / Period).
func (r Rate) accrued(from, to int64) uint128 {
	period, amount := uint64(r.Period), uint64(r.Amount)
	m := mulMod(floorMod(from, r.Period), amount, period)
	q, _ := mul(uint64(to)-uint64(from), amount).add(m).div(period)
	return q
}

// Refill brings s up to now by the reference's formula. Whole thousandths are
// added and the time moves by what they took, rounded down; with less than one
// thousandth due, or now not after s.At, s is returned as it is, not even
// clamped to the capacity.
func Refill(s State, now int64) State {
	if now <= s.At || s.Amount <= 0 || s.Period <= 0 {
		return s
	}
	elapsed := uint64(now) - uint64(s.At)
	due, rest := mul(elapsed, uint64(s.Amount)).div(uint64(s.Period))
	if due.isZero() {
		return s
	}
	// floor(due*Period/Amount) without leaving 64 bits: due*Period is
	// elapsed*Amount - rest, so the quotient is elapsed - ceil(rest/Amount).
	used := elapsed - ceilDiv(rest, uint64(s.Amount))
	s.Tokens = addUpTo(s.Tokens, due, s.Capacity)
	s.At = int64(uint64(s.At) + used)
	return s
}

// Wait is how long a bucket that fills at r needs to cover deficit: zero when
// there is none, else one millisecond more than the quotient, so that a refill
// after that wait is sure to do. The capacity plays no part.
func Wait(deficit int64, r Rate) Millis {
	if deficit <= 0 || r.Amount <= 0 || r.Period <= 0 {
		return Millis{}
	}
	q, _ := mul(uint64(deficit), uint64(r.Period)).div(uint64(r.Amount))
	return Millis{q.add(1)}
}

// FillTime is how long an empty bucket takes to fill, rounded up to whole
// milliseconds; math.MaxInt64 where it is longer than that or never.
func FillTime(r Rate) int64 {
	if r.Amount <= 0 || r.Period <= 0 {
		return math.MaxInt64
	}
	q, rest := mul(uint64(max(r.Capacity, 0)), uint64(r.Period)).div(uint64(r.Amount))
	if rest > 0 {
		q = q.add(1)
	}
	return q.clamp()
}

// addUpTo is min(capacity, tokens+due).
func addUpTo(tokens int64, due uint128, capacity int64) int64 {
	if tokens >= capacity {
		return capacity
	}
	room := uint64(capacity) - uint64(tokens)
	if due.hi > 0 || due.lo >= room {
		return capacity
	}
	return int64(uint64(tokens) + due.lo)
}

// Whole is the number of whole tokens in thousandths, rounded down: -1 is -1.
func Whole(thousandths int64) int64 {
	q := thousandths / Milli
	if thousandths%Milli < 0 {
		q--
	}
	return q
}

// Thousandths turns whole tokens into thousandths, kept within int64.
func Thousandths(tokens int64) int64 {
	switch {
	case tokens > MaxTokens:
		return math.MaxInt64
	case tokens < -MaxTokens:
		return math.MinInt64
	}
	return tokens * Milli
}

// Add is a+b kept within int64.
func Add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// Sub is a-b kept within int64.
func Sub(a, b int64) int64 {
	diff := a - b
	switch {
	case a >= 0 && b < 0 && diff < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && diff >= 0:
		return math.MinInt64
	}
	return diff
}
