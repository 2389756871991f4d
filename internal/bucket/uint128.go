package bucket

import (
	"math"
	"math/bits"
)

// uint128 is an unsigned 128-bit number with the operations this package needs.
type uint128 struct{ hi, lo uint64 }

// mul returns a*b.
func mul(a, b uint64) uint128 {
	hi, lo := bits.Mul64(a, b)
	return uint128{hi, lo}
}

func (u uint128) isZero() bool { return u.hi == 0 && u.lo == 0 }

// add returns u+n. It wraps around on overflow.
func (u uint128) add(n uint64) uint128 {
	lo, carry := bits.Add64(u.lo, n, 0)
	return uint128{u.hi + carry, lo}
}

// div returns the quotient and the remainder of u/d.
func (u uint128) div(d uint64) (quotient uint128, rest uint64) {
	if u.hi == 0 {
		return uint128{0, u.lo / d}, u.lo % d
	}
	// The high words leave a rest below d, so Div64 cannot overflow.
	hi, rest := u.hi/d, u.hi%d
	lo, rest := bits.Div64(rest, u.lo, d)
	return uint128{hi, lo}, rest
}

// clamp returns u, at most math.MaxInt64.
func (u uint128) clamp() int64 {
	if u.hi > 0 || u.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(u.lo)
}

// float64 returns the nearest float64, ties to even.
func (u uint128) float64() float64 {
	if u.hi == 0 {
		return float64(u.lo)
	}

	// Keep the upper 64 bits, and set the lowest one if any bit below them was
	// set. It is far enough below the 53 significant bits to round correctly.
	n := bits.Len64(u.hi)
	top := u.hi<<(64-n) | u.lo>>n
	if u.lo<<(64-n) != 0 {
		top |= 1
	}
	return math.Ldexp(float64(top), n)
}

// mulMod returns a*b mod m, for a < m.
func mulMod(a, b, m uint64) uint64 {
	// Rem64 needs no bound on hi, unlike Div64.
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo % m
	}
	return bits.Rem64(hi, lo, m)
}

// floorMod returns the non-negative remainder of a divided by m > 0.
func floorMod(a, m int64) uint64 {
	r := a % m
	if r < 0 {
		r += m
	}
	return uint64(r)
}
