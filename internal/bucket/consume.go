package bucket

import "math"

// Try is what [TryConsume] decided.
type Try struct {
	OK        bool
	State     State  // refilled, and debited when OK
	Available int64  // whole tokens before the debit
	Wait      Millis // until it would fit; zero when OK
}

// TryConsume takes requested whole tokens from s at now if they are there. A
// request of zero is refused on a bucket in debt. Capacity plays no part in the
// wait, so a request above it gets a finite one.
func TryConsume(s State, requested, now int64) Try {
	s = Refill(s, now)
	t := Try{Available: Whole(s.Tokens)}
	if t.OK = requested <= MaxTokens && s.Tokens >= Thousandths(requested); t.OK {
		s.Tokens = less(s.Tokens, requested)
	} else {
		t.Wait = waitFor(requested, s)
	}
	t.State = s
	return t
}

// ForceConsume takes amount whole tokens whatever s holds; a negative amount
// gives back, past the capacity if need be. Kept within int64.
func ForceConsume(s State, amount, now int64) State {
	s = Refill(s, now)
	s.Tokens = less(s.Tokens, amount)
	return s
}

// less is tokens - amount*1000 kept within int64: the result, not the product.
func less(tokens, amount int64) int64 {
	switch {
	case amount > MaxTokens:
		if d := wideDeficit(amount, tokens); d.hi == 0 && d.lo <= 1<<63 {
			return int64(-d.lo)
		}
		return math.MinInt64
	case amount < -MaxTokens:
		more := mul(-uint64(amount), Milli)
		if tokens < 0 {
			return more.sub(-uint64(tokens)).clamp()
		}
		return math.MaxInt64
	}
	return Sub(tokens, amount*Milli)
}

// Available is the number of whole tokens in s at now, negative in debt.
func Available(s State, now int64) int64 { return Whole(Refill(s, now).Tokens) }

// TimeUntil is how long after now s holds needed whole tokens.
func TimeUntil(s State, needed, now int64) Millis {
	s = Refill(s, now)
	if needed <= MaxTokens && s.Tokens >= Thousandths(needed) {
		return Millis{}
	}
	return waitFor(needed, s)
}

// waitFor is [Wait] for requested*1000 - s.Tokens > 0, a difference that may
// need more than 64 bits.
func waitFor(requested int64, s State) Millis {
	if s.Amount <= 0 || s.Period <= 0 {
		return Millis{}
	}
	if requested <= MaxTokens && s.Tokens >= 0 {
		return Wait(Thousandths(requested)-s.Tokens, s.Rate)
	}
	deficit := wideDeficit(requested, s.Tokens)
	q := deficit.mulDiv(uint64(s.Period), uint64(s.Amount))
	return Millis{q.add(1)}
}

// wideDeficit is requested*1000 - tokens, known to be positive.
func wideDeficit(requested, tokens int64) uint128 {
	if requested < 0 { // and tokens lower still, so 64 bits do
		return uint128{0, uint64(Thousandths(requested)) - uint64(tokens)}
	}
	need := mul(uint64(requested), Milli)
	if tokens < 0 {
		return need.add(uint64(-(tokens + 1)) + 1)
	}
	return need.sub(uint64(tokens))
}

func (u uint128) sub(n uint64) uint128 {
	if u.lo < n {
		return uint128{u.hi - 1, u.lo - n}
	}
	return uint128{u.hi, u.lo - n}
}

// mulDiv is floor(u*a/b) for u below 2^74, a and b below 2^63: the product has
// at most 137 bits, so it is taken in three words. A quotient that leaves no
// room for one more in 128 bits becomes the largest that does.
func (u uint128) mulDiv(a, b uint64) uint128 {
	low := mul(u.lo, a)
	high := mul(u.hi, a).add(low.hi) // in units of 2^64
	q, rest := high.div(b)
	tail, _ := uint128{rest, low.lo}.div(b)
	if q.hi > 0 || q.lo == math.MaxUint64 && tail.lo == math.MaxUint64 {
		return uint128{math.MaxUint64, math.MaxUint64 - 1}
	}
	return uint128{q.lo, tail.lo}
}

// Need is one limit of a request: the state of its bucket, and how much.
type Need struct {
	State  State
	Amount int64
}

// WouldRefillSatisfy tries every need with an amount other than zero, in the
// order given, and tells whether all would fit at now.
func WouldRefillSatisfy(needs []Need, now int64) (ok bool, tries []Try) {
	ok = true
	for _, n := range needs {
		if n.Amount == 0 {
			continue
		}
		t := TryConsume(n.State, n.Amount, now)
		ok = ok && t.OK
		tries = append(tries, t)
	}
	return ok, tries
}
