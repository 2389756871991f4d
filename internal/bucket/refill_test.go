package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// TestReferenceRefillVectors checks the oracle by the rows of the specification,
// 4.2.
func TestReferenceRefillVectors(t *testing.T) {
	for _, c := range []struct {
		id                   string
		tokens, at, now      int64
		capacity, amount     int64
		period               int64
		wantTokens, wantTime int64
	}{
		{"R1", 50000, 1000, 1000, 100000, 100000, 60000, 50000, 1000},
		{"R2", 50000, 10000, 5000, 100000, 100000, 60000, 50000, 10000},
		{"R3", 0, 0, 30000, 100000, 100000, 60000, 50000, 30000},
		{"R4", 0, 0, 120000, 100000, 100000, 60000, 100000, 120000},
		{"R5", 100000, 0, 10000, 100000, 100000, 60000, 100000, 9999},
		{"R6", 150000, 0, 0, 100000, 100000, 60000, 150000, 0},
		{"R7", 150000, 0, 1, 100000, 100000, 60000, 100000, 0},
		{"R8", -50000, 0, 30000, 100000, 100000, 60000, 0, 30000},
		{"R9", 0, 0, 863, 100000, 100000, 86400000, 0, 0},
		{"R10", 0, 0, 864, 100000, 100000, 86400000, 1, 864},
		{"R11", 0, 0, 1000, 100000, 100000, 86400000, 1, 864},
		{"R12", 0, 0, 9, 7000, 7000, 60000, 1, 8},
		{"R13", 0, 0, 1, 100000000, 100000000, 60000, 1666, 0},
		{"R14", 0, 0, 3600000, 1000, 1000, 2592000000, 1, 2592000},
		{"R15", -5, 0, 1000000000000, 1000000000000000, 1000000000000000, 1000, 1000000000000000, 1000000000000},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := bucket.Rate{Capacity: c.capacity, Amount: c.amount, Period: c.period}
			got := referenceRefill(t, stateOf(c.tokens, c.at, r), c.now)
			if want := stateOf(c.wantTokens, c.wantTime, r); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestAdvanceIsNotBelowTheReference checks that Advance gains as much as the
// reference or a thousandth more, because it rounds both ends on one grid.
func TestAdvanceIsNotBelowTheReference(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) {
		tokens := min(v[0], r.Capacity)
		ref := referenceRefill(t, stateOf(tokens, v[1], r), v[2]).Tokens
		if got := bucket.Advance(tokens, v[1], v[2], r); got < ref || got-ref > 1 {
			t.Fatalf("Advance(%d, %d, %d, %+v) = %d, the reference gives %d", tokens, v[1], v[2], r, got, ref)
		}
	})
}

// TestChainedReferenceRefillOverCredits shows where the two refills differ (B-3):
// the reference rounds its time down, and counts the same millisecond twice.
func TestChainedReferenceRefillOverCredits(t *testing.T) {
	r := bucket.Rate{Capacity: math.MaxInt64, Amount: 100_000_000, Period: 60_000}
	s, tokens := stateOf(0, 0, r), int64(0)
	for now := int64(1); now <= 1000; now++ {
		s = referenceRefill(t, s, now)
		tokens = bucket.Advance(tokens, now-1, now, r)
	}
	if s.Tokens != 3_331_333 {
		t.Errorf("the chained reference gained %d, want 3331333", s.Tokens)
	}
	if tokens != 1_666_666 {
		t.Errorf("chained Advance gained %d, want 1666666", tokens)
	}
}

// TestRateThatNeverRefills checks rates without an amount or a period, which must
// not divide by zero.
func TestRateThatNeverRefills(t *testing.T) {
	for _, r := range []bucket.Rate{
		{Capacity: 1000},
		{Capacity: 1000, Amount: 1000},
		{Capacity: 1000, Period: 1000},
		{Capacity: 1000, Amount: math.MinInt64, Period: 1000},
		{Capacity: 1000, Amount: 1000, Period: math.MinInt64},
	} {
		if got := bucket.Advance(-5, 0, math.MaxInt64, r); got != -5 {
			t.Errorf("Advance(-5, %+v) = %d", r, got)
		}
		if got := bucket.Advance(2000, 0, math.MaxInt64, r); got != 1000 {
			t.Errorf("Advance(2000, %+v) = %d, want the capacity", r, got)
		}
		if got := bucket.Accrued(0, math.MaxInt64, r); got != 0 {
			t.Errorf("Accrued(%+v) = %d", r, got)
		}
		if got := bucket.FillTime(r); got != math.MaxInt64 {
			t.Errorf("FillTime(%+v) = %d", r, got)
		}
		if bucket.Wait(-1, r) != (bucket.Millis{}) {
			t.Errorf("Wait(-1, %+v) is not zero", r)
		}
	}
}
