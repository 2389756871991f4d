package bucket_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// The oracle implements the formulas of the specification with big integers.
// big.Int.Div rounds toward minus infinity, since all divisors are positive.

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

// within64 returns n, clamped to int64.
func within64(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// mustInt64 returns n, which the formulas guarantee to fit.
func mustInt64(t *testing.T, n *big.Int) int64 {
	t.Helper()
	if !n.IsInt64() {
		t.Fatalf("oracle left int64: %v", n)
	}
	return n.Int64()
}

// referenceRefill refills s by the formula of the reference library. It adds
// whole thousandths and advances the time by what they took, rounded down. The
// result is not the same if an interval is split into several calls.
func referenceRefill(t *testing.T, s bucket.State, now int64) bucket.State {
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
	s.Tokens = mustInt64(t, least(num(s.Capacity), plus(num(s.Tokens), due)))
	s.At = mustInt64(t, plus(num(s.At), used))
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
	return mustInt64(t, least(num(r.Capacity), plus(num(tokens), wantAccrued(from, to, r))))
}

// wantWait returns the wait in milliseconds.
func wantWait(deficit *big.Int, r bucket.Rate) *big.Int {
	if deficit.Sign() <= 0 {
		return new(big.Int)
	}
	return plus(over(times(deficit, num(r.Period)), num(r.Amount)), num(1))
}

func wantFillTime(r bucket.Rate) int64 {
	q, rest := new(big.Int).DivMod(times(num(r.Capacity), num(r.Period)), num(r.Amount), new(big.Int))
	if rest.Sign() > 0 {
		q = plus(q, num(1))
	}
	return within64(q)
}

// seconds rounds the whole number to the nearest float64, ties to even, and then
// divides. Rounding the exact quotient could differ in the last bit.
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
