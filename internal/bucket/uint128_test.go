package bucket

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func (u uint128) big() *big.Int {
	b := new(big.Int).SetUint64(u.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(u.lo))
}

func big64(n uint64) *big.Int { return new(big.Int).SetUint64(n) }

// words draws 64-bit words of every width, and the extremes often.
type words struct{ *rand.Rand }

func newWords(t *testing.T, seed uint64) words {
	t.Helper()
	t.Logf("seed %d", seed)
	return words{rand.New(rand.NewPCG(seed, seed))}
}

func (w words) next() uint64 {
	switch w.IntN(5) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64 - w.Uint64N(2)
	}
	return w.Uint64() >> w.IntN(64)
}

func (w words) positive() uint64 { return max(w.next(), 1) }

const draws = 5000

func TestUint128Mul(t *testing.T) {
	w := newWords(t, 1)
	for range draws {
		a, b := w.next(), w.next()
		if got, want := mul(a, b).big(), new(big.Int).Mul(big64(a), big64(b)); got.Cmp(want) != 0 {
			t.Fatalf("mul(%d, %d) = %v, want %v", a, b, got, want)
		}
	}
}

func TestUint128Add(t *testing.T) {
	w := newWords(t, 2)
	for range draws {
		u, n := uint128{w.next() >> 1, w.next()}, w.next() // room for the carry
		sum := u.add(n)
		if want := new(big.Int).Add(u.big(), big64(n)); sum.big().Cmp(want) != 0 {
			t.Fatalf("%v.add(%d) = %v, want %v", u, n, sum, want)
		}
	}
}

func TestUint128Div(t *testing.T) {
	w := newWords(t, 3)
	for range draws {
		u, d := uint128{w.next(), w.next()}, w.positive()
		q, rest := u.div(d)
		wantQ, wantRest := new(big.Int).DivMod(u.big(), big64(d), new(big.Int))
		if q.big().Cmp(wantQ) != 0 || big64(rest).Cmp(wantRest) != 0 {
			t.Fatalf("%v.div(%d) = %v, %d, want %v, %v", u, d, q, rest, wantQ, wantRest)
		}
	}
}

func TestUint128Clamp(t *testing.T) {
	for _, c := range []struct {
		in   uint128
		want int64
	}{
		{uint128{}, 0},
		{uint128{0, math.MaxInt64}, math.MaxInt64},
		{uint128{0, math.MaxInt64 + 1}, math.MaxInt64},
		{uint128{1, 0}, math.MaxInt64},
		{uint128{math.MaxUint64, math.MaxUint64}, math.MaxInt64},
	} {
		if got := c.in.clamp(); got != c.want {
			t.Errorf("%v.clamp() = %d, want %d", c.in, got, c.want)
		}
	}
}

// TestUint128Float64 also builds ties and their neighbours, which are too rare to
// draw: 53 bits, the half, and at most one bit below it.
func TestUint128Float64(t *testing.T) {
	check := func(u uint128) {
		t.Helper()
		want, _ := new(big.Float).SetPrec(53).SetMode(big.ToNearestEven).SetInt(u.big()).Float64()
		if got := u.float64(); got != want {
			t.Errorf("%v.float64() = %v, want %v", u, got, want)
		}
	}
	w := newWords(t, 5)
	for range draws {
		check(uint128{w.next(), w.next()})
	}
	one := big.NewInt(1)
	for _, mantissa := range []int64{1 << 52, 1<<52 + 1, 1<<53 - 2, 1<<53 - 1} {
		for shift := uint(1); shift <= 75; shift++ {
			tie := new(big.Int).Lsh(big.NewInt(mantissa), shift)
			tie.Or(tie, new(big.Int).Lsh(one, shift-1))
			check(uint128Of(tie))
			check(uint128Of(new(big.Int).Sub(tie, one)))
			for below := range shift - 1 {
				check(uint128Of(new(big.Int).Or(tie, new(big.Int).Lsh(one, below))))
			}
		}
	}
}

func uint128Of(n *big.Int) uint128 {
	return uint128{new(big.Int).Rsh(n, 64).Uint64(), new(big.Int).And(n, big64(math.MaxUint64)).Uint64()}
}

func TestUint128IsZero(t *testing.T) {
	for u, want := range map[uint128]bool{{}: true, {0, 1}: false, {1, 0}: false} {
		if got := u.isZero(); got != want {
			t.Errorf("%v.isZero() = %v", u, got)
		}
	}
}

func TestMulMod(t *testing.T) {
	w := newWords(t, 6)
	for range draws {
		m := w.positive()
		a, b := w.next()%m, w.next()
		want := new(big.Int).Mul(big64(a), big64(b))
		want.Mod(want, big64(m))
		if got := mulMod(a, b, m); big64(got).Cmp(want) != 0 {
			t.Fatalf("mulMod(%d, %d, %d) = %d, want %v", a, b, m, got, want)
		}
	}
}

func TestFloorMod(t *testing.T) {
	w := newWords(t, 7)
	for range draws {
		a, m := int64(w.next()), max(int64(w.next()>>1), 1)
		want := new(big.Int).Mod(big.NewInt(a), big.NewInt(m))
		if got := floorMod(a, m); big64(got).Cmp(want) != 0 {
			t.Fatalf("floorMod(%d, %d) = %d, want %v", a, m, got, want)
		}
	}
}
