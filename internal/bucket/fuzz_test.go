package bucket_test

import (
	"math"
	"testing"
)

// seed gives a fuzz target a corpus of extreme values: rows of one value, and
// rows drawn from all of them.
func seed(f *testing.F, arity int) {
	f.Helper()
	s := newSource(f, 7)
	row := make([]any, arity)
	for _, n := range extremes {
		for i := range row {
			row[i] = n
		}
		f.Add(row...)
	}
	for range 40 {
		for i := range row {
			row[i] = extremes[s.IntN(len(extremes))]
		}
		f.Add(row...)
	}
}

func FuzzRefill(f *testing.F) {
	seed(f, 6)
	f.Add(int64(0), int64(0), int64(1), int64(100_000_000), int64(100_000_000), int64(60_000))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(3))
	f.Fuzz(func(t *testing.T, tokens, at, now, capacity, amount, period int64) {
		checkRefill(t, stateOf(tokens, at, rateOf(capacity, amount, period)), now)
	})
}

func FuzzAdvance(f *testing.F) {
	seed(f, 6)
	f.Add(int64(0), int64(499), int64(1000), int64(100_000), int64(100_000), int64(86_400_000))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(3))
	f.Fuzz(func(t *testing.T, tokens, from, to, capacity, amount, period int64) {
		checkAdvance(t, tokens, from, to, rateOf(capacity, amount, period))
	})
}

func FuzzWait(f *testing.F) {
	seed(f, 4)
	f.Add(int64(1_000_000_000_000_000), int64(1), int64(1000), int64(86_400_000))
	f.Add(int64(math.MaxInt64), int64(1), int64(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, deficit, capacity, amount, period int64) {
		checkWait(t, deficit, rateOf(capacity, amount, period))
	})
}

func FuzzTryConsume(f *testing.F) {
	seed(f, 7)
	f.Add(int64(-1), int64(0), int64(0), int64(0), int64(100_000), int64(100_000), int64(60_000))
	f.Add(int64(math.MinInt64), int64(0), int64(math.MaxInt64), int64(0), int64(1), int64(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, tokens, at, requested, now, capacity, amount, period int64) {
		checkTryConsume(t, stateOf(tokens, at, rateOf(capacity, amount, period)), requested, now)
	})
}

func FuzzForceConsume(f *testing.F) {
	seed(f, 7)
	f.Add(int64(100_000), int64(0), int64(-50), int64(0), int64(100_000), int64(100_000), int64(60_000))
	f.Fuzz(func(t *testing.T, tokens, at, taken, now, capacity, amount, period int64) {
		checkForceConsume(t, stateOf(tokens, at, rateOf(capacity, amount, period)), taken, now)
	})
}

func FuzzTimeUntil(f *testing.F) {
	seed(f, 7)
	f.Add(int64(0), int64(0), int64(1), int64(9), int64(7000), int64(7000), int64(60_000))
	f.Add(int64(math.MinInt64), int64(0), int64(math.MaxInt64), int64(0), int64(1), int64(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, tokens, at, needed, now, capacity, amount, period int64) {
		checkTimeUntil(t, stateOf(tokens, at, rateOf(capacity, amount, period)), needed, now)
	})
}
