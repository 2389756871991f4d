// Package bucket implements the arithmetic of token buckets with whole numbers.
// Time is an argument: the package has no clock and does no I/O.
//
// Tokens are counted in thousandths and time in milliseconds, both int64.
// Products are computed in 128 bits and quotients are rounded toward minus
// infinity, so every result is exact. Functions whose exact result may not fit
// into an int64 document what they return instead.
//
// [Advance] telescopes: however an interval is split into calls, the parts add
// up to the whole. A store can therefore write the time of a refill with every
// change of a bucket and lose nothing.
package bucket

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Milli is the number of thousandths in a token, and of milliseconds in a
// second.
const Milli = 1000

// MaxTokens is the largest number of whole tokens that fits into thousandths.
const MaxTokens = math.MaxInt64 / Milli

// Rate describes how a bucket fills: Amount thousandths every Period
// milliseconds, up to Capacity. A Rate whose Amount or Period is not positive
// never refills, except if it has a Window: then it gains Capacity at every
// boundary of the window, and nothing in between.
type Rate struct {
	Capacity, Amount, Period int64
	Window                   *calendar.Window
	// Peak is the largest capacity that was in force in the window of the tokens. It
	// matters if it is above Capacity: the first boundary then adds it instead.
	Peak int64
}

// RateOf returns the rate of a limit of capacity whole tokens that gains refill
// whole tokens every period.
func RateOf(capacity, refill int64, period time.Duration) Rate {
	return Rate{Capacity: capacity * Milli, Amount: refill * Milli, Period: period.Milliseconds()}
}

// State is the content of a bucket at time At. Negative Tokens are debt.
type State struct {
	Rate
	Tokens, At int64
}

// Advance returns tokens after a refill from one time to another. It adds
// floor(to*Amount/Period) - floor(from*Amount/Period) and stops at the
// capacity. If to is not after from, it adds nothing. The result is never above
// the capacity, even if tokens was.
func Advance(tokens, from, to int64, r Rate) int64 {
	if r.fills(from, to) {
		return addUpTo(tokens, r.accrued(from, to), r.Capacity)
	}
	return min(tokens, r.Capacity)
}

// fills reports whether anything can accrue between two times.
func (r Rate) fills(from, to int64) bool {
	return to > from && (r.Amount > 0 && r.Period > 0 || r.Window != nil)
}

// Accrued returns what [Advance] adds between two times to a bucket that does
// not fill up, at most math.MaxInt64.
func Accrued(from, to int64, r Rate) int64 {
	if !r.fills(from, to) {
		return 0
	}
	return r.accrued(from, to).clamp()
}

// accrued computes the difference of the two floors as one quotient: with m the
// remainder of from, it is floor(((to-from)*Amount + m) / Period).
func (r Rate) accrued(from, to int64) uint128 {
	if r.Window != nil {
		return r.accruedSteps(from, to)
	}

	// The conversions lose nothing: fills has checked the signs. The difference
	// of two times may exceed an int64, and fits a uint64.
	period, amount := uint64(r.Period), uint64(r.Amount)
	m := mulMod(floorMod(from, r.Period), amount, period)

	q, _ := mul(uint64(to)-uint64(from), amount).add(m).div(period)
	return q
}

// Wait returns how long a bucket that fills at r needs to cover deficit, zero if
// deficit is not positive. It adds one millisecond to the quotient, so that a
// refill after the wait always covers the deficit. It ignores the capacity.
func Wait(deficit int64, r Rate) Millis {
	if deficit <= 0 || r.Amount <= 0 || r.Period <= 0 {
		return Millis{}
	}

	q, _ := mul(uint64(deficit), uint64(r.Period)).div(uint64(r.Amount))
	return Millis{q.add(1)}
}

// Seconds returns a wait of [Wait], in milliseconds, in whole seconds rounded up. If
// the wait is a whole number of seconds, it leaves out the millisecond that Wait
// adds: a refill after exactly that time covers the deficit.
func Seconds(wait int64, r Rate) int64 {
	const second = 1000

	if exact := wait - 1; exact >= 0 && exact%second == 0 && r.Amount > 0 && r.Period > 0 {
		if _, rest := mul(uint64(exact), uint64(r.Amount)).div(uint64(r.Period)); rest == 0 {
			return exact / second
		}
	}

	return wait/second + min(1, wait%second)
}

// FillTime returns how long an empty bucket takes to fill, rounded up to whole
// milliseconds. It returns math.MaxInt64 if that is too long for an int64, or
// if the bucket never fills.
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

// addUpTo returns min(capacity, tokens+due).
func addUpTo(tokens int64, due uint128, capacity int64) int64 {
	// A capacity that was lowered may be below the tokens.
	if tokens >= capacity {
		return capacity
	}
	// Debt can make the room larger than an int64 holds.
	room := uint64(capacity) - uint64(tokens)
	if due.hi > 0 || due.lo >= room {
		return capacity
	}
	return int64(uint64(tokens) + due.lo)
}

// Whole returns thousandths as whole tokens, rounded down: -1 becomes -1.
func Whole(thousandths int64) int64 {
	// Go rounds a quotient toward zero, so a negative one with a rest is
	// one too large.
	q := thousandths / Milli
	if thousandths%Milli < 0 {
		q--
	}
	return q
}

// Thousandths returns whole tokens as thousandths, clamped to int64.
func Thousandths(tokens int64) int64 {
	switch {
	case tokens > MaxTokens:
		return math.MaxInt64
	case tokens < -MaxTokens:
		return math.MinInt64
	}
	return tokens * Milli
}

// Add returns a+b, clamped to int64.
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

// Sub returns a-b, clamped to int64.
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

// Millis is a waiting time in whole milliseconds. It has 128 bits, because a
// slow refill of a large deficit takes longer than an int64 can hold.
type Millis struct{ n uint128 }

// IsZero reports whether the wait is zero.
func (m Millis) IsZero() bool { return m.n.isZero() }

// Seconds returns the wait in seconds. It rounds the whole number of
// milliseconds to the nearest float64 and divides once.
func (m Millis) Seconds() float64 { return m.n.float64() / Milli }

// Duration returns the wait as a Duration, at most the longest one.
func (m Millis) Duration() time.Duration {
	const longest = math.MaxInt64 / uint64(time.Millisecond)
	if m.n.hi > 0 || m.n.lo > longest {
		return math.MaxInt64
	}
	return time.Duration(m.n.lo) * time.Millisecond
}
