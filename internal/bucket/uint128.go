package bucket

import (
	"math"
	"math/bits"
)

// uint128 is just enough of a 128-bit number: a product, a sum, a quotient.
type uint128 struct{ hi, lo uint64 }

func mul(a, b uint64) uint128 {
	hi, lo := bits.Mul64(a, b)
	return uint128{hi, lo}
}

func (u uint128) isZero() bool { return u.hi == 0 && u.lo == 0 }

func (u uint128) add(n uint64) uint128 {
	lo, carry := bits.Add64(u.lo, n, 0)
	return uint128{u.hi + carry, lo}
}

func (u uint128) div(d uint64) (quotient uint128, rest uint64) {
	if u.hi == 0 {
		return uint128{0, u.lo / d}, u.lo % d
	}
	hi, rest := u.hi/d, u.hi%d
	lo, rest := bits.Div64(rest, u.lo, d)
	return uint128{hi, lo}, rest
}

// clamp is u, or math.MaxInt64 where u is larger.
func (u uint128) clamp() int64 {
	if u.hi > 0 || u.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(u.lo)
}

// float64 is the nearest float64, ties to even.
func (u uint128) float64() float64 {
	if u.hi == 0 {
		return float64(u.lo)
	}
	// Keep the upper 64 bits, and whether anything below them was set in the
	// lowest: far enough below the 53 that count to round like the whole.
	n := bits.Len64(u.hi)
	top := u.hi<<(64-n) | u.lo>>n
	if u.lo<<(64-n) != 0 {
		top |= 1
	}
	return math.Ldexp(float64(top), n)
}

// mulMod is a*b mod m, for a < m.
func mulMod(a, b, m uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo % m
	}
	return bits.Rem64(hi, lo, m)
}

// floorMod is the remainder of a by m > 0 that is never negative.
func floorMod(a, m int64) uint64 {
	r := a % m
	if r < 0 {
		r += m
	}
	return uint64(r)
}

func ceilDiv(a, b uint64) uint64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
