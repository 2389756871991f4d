package bucket_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// The oracle is the specification's formulas written down once more in numbers
// of any size. math/big.Int.Div rounds toward minus infinity for the divisors
// here, which are all positive.

func num(n int64) *big.Int         { return big.NewInt(n) }
func plus(a, b *big.Int) *big.Int  { return new(big.Int).Add(a, b) }
func minus(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
func times(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
func over(a, b *big.Int) *big.Int  { return new(big.Int).Div(a, b) }

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// within64 is n kept within int64.
func within64(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// exactly is n, which the formulas say must fit.
func exactly(t *testing.T, n *big.Int) int64 {
	t.Helper()
	if !n.IsInt64() {
		t.Fatalf("oracle left int64: %v", n)
	}
	return n.Int64()
}

func wantRefill(t *testing.T, s bucket.State, now int64) bucket.State {
	t.Helper()
	elapsed := minus(num(now), num(s.At))
	if elapsed.Sign() <= 0 {
		return s
	}
	due := over(times(elapsed, num(s.Amount)), num(s.Period))
	if due.Sign() == 0 {
		return s
	}
	used := over(times(due, num(s.Period)), num(s.Amount))
	s.Tokens = exactly(t, least(num(s.Capacity), plus(num(s.Tokens), due)))
	s.At = exactly(t, plus(num(s.At), used))
	return s
}

func wantAccrued(from, to int64, r bucket.Rate) *big.Int {
	if to <= from {
		return new(big.Int)
	}
	upTo := func(at int64) *big.Int { return over(times(num(at), num(r.Amount)), num(r.Period)) }
	return minus(upTo(to), upTo(from))
}

func wantAdvance(t *testing.T, tokens, from, to int64, r bucket.Rate) int64 {
	t.Helper()
	return exactly(t, least(num(r.Capacity), plus(num(tokens), wantAccrued(from, to, r))))
}

// wantWait is in milliseconds, stopping where 128 bits do.
func wantWait(deficit *big.Int, r bucket.Rate) *big.Int {
	if deficit.Sign() <= 0 {
		return new(big.Int)
	}
	most := minus(new(big.Int).Lsh(num(1), 128), num(1))
	return least(most, plus(over(times(deficit, num(r.Period)), num(r.Amount)), num(1)))
}

func wantTry(t *testing.T, s bucket.State, requested, now int64) (try bucket.Try, wait *big.Int) {
	t.Helper()
	s = wantRefill(t, s, now)
	left := minus(num(s.Tokens), times(num(requested), num(1000)))
	try.Available = exactly(t, over(num(s.Tokens), num(1000)))
	if try.OK = left.Sign() >= 0; try.OK {
		s.Tokens = within64(left)
	}
	try.State = s
	return try, wantWait(left.Neg(left), s.Rate)
}

func wantForce(t *testing.T, s bucket.State, amount, now int64) bucket.State {
	t.Helper()
	s = wantRefill(t, s, now)
	s.Tokens = within64(minus(num(s.Tokens), times(num(amount), num(1000))))
	return s
}

func wantFillTime(r bucket.Rate) int64 {
	q, rest := new(big.Int).DivMod(times(num(r.Capacity), num(r.Period)), num(r.Amount), new(big.Int))
	if rest.Sign() > 0 {
		q = plus(q, num(1))
	}
	return within64(q)
}

// seconds rounds the whole number to the nearest float64, ties to even, and
// divides that once: rounding the exact quotient could differ in the last bit.
func seconds(ms *big.Int) float64 {
	f, _ := new(big.Float).SetPrec(53).SetMode(big.ToNearestEven).SetInt(ms).Float64()
	return f / 1000
}

func duration(ms *big.Int) time.Duration {
	return time.Duration(within64(times(ms, num(int64(time.Millisecond)))))
}

func checkMillis(t *testing.T, got bucket.Millis, want *big.Int) (same bool) {
	t.Helper()
	same = true
	if g, w := got.Seconds(), seconds(want); g != w {
		t.Errorf("Seconds() = %v, want %v (%v ms)", g, w, want)
		same = false
	}
	if g, w := got.Duration(), duration(want); g != w {
		t.Errorf("Duration() = %d, want %d (%v ms)", g, w, want)
		same = false
	}
	if g, w := got.IsZero(), want.Sign() == 0; g != w {
		t.Errorf("IsZero() = %v, want %v (%v ms)", g, w, want)
		same = false
	}
	return same
}
