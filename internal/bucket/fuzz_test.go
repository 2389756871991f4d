package bucket_test

import (
	"math"
	"testing"
)

// seed adds a corpus of extreme values to a fuzz target: rows of one value, and
// random rows.
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
