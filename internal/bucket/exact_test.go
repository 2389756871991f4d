package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// The checks compare one call with the oracle. Tests and fuzz targets share them.
// They stop at the first difference, since a wrong formula is wrong nearly
// everywhere.

func checkAdvance(t *testing.T, tokens, from, to int64, r bucket.Rate) {
	t.Helper()
	if got, want := bucket.Advance(tokens, from, to, r), wantAdvance(t, tokens, from, to, r); got != want {
		t.Fatalf("Advance(%d, %d, %d, %+v) = %d, want %d", tokens, from, to, r, got, want)
	}
	if got, want := bucket.Accrued(from, to, r), within64(wantAccrued(from, to, r)); got != want {
		t.Fatalf("Accrued(%d, %d, %+v) = %d, want %d", from, to, r, got, want)
	}
}

func checkWait(t *testing.T, deficit int64, r bucket.Rate) {
	t.Helper()
	if !checkMillis(t, bucket.Wait(deficit, r), wantWait(num(deficit), r)) {
		t.Fatalf("Wait(%d, %+v)", deficit, r)
	}
}

func checkFillTime(t *testing.T, r bucket.Rate) {
	t.Helper()
	if got, want := bucket.FillTime(r), wantFillTime(r); got != want {
		t.Fatalf("FillTime(%+v) = %d, want %d", r, got, want)
	}
}

func TestAdvanceIsExact(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) { checkAdvance(t, v[0], v[1], v[2], r) })
}

func TestWaitIsExact(t *testing.T) {
	everywhere(t, 1, func(v []int64, r bucket.Rate) { checkWait(t, v[0], r) })
}

func TestFillTimeIsExact(t *testing.T) {
	everywhere(t, 0, func(_ []int64, r bucket.Rate) { checkFillTime(t, r) })
}

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
