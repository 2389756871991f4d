package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// perMinute is the rate of the specification's vectors, 100 a minute.
var perMinute = bucket.Rate{Capacity: 100000, Amount: 100000, Period: 60000}

// TestConsumeVectors checks the rows of the specification, 4.2. It refills by the
// formula of the reference and judges with the functions that a limiter uses.
func TestConsumeVectors(t *testing.T) {
	threeADay := bucket.Rate{Capacity: 3000, Amount: 3000, Period: 86400000}
	sevenAMinute := bucket.Rate{Capacity: 7000, Amount: 7000, Period: 60000}
	oneAMinute := bucket.Rate{Capacity: 1000, Amount: 1000, Period: 60000}
	for _, c := range []struct {
		id                         string
		rate                       bucket.Rate
		tokens, at, requested, now int64
		ok                         bool
		wantTokens, wantTime       int64
		available                  int64
		retryAfter                 float64
	}{
		{"C1", perMinute, 100000, 0, 100, 0, true, 0, 0, 100, 0},
		{"C2", perMinute, 100000, 0, 101, 0, false, 100000, 0, 100, 0.601},
		{"C3", perMinute, 999, 0, 1, 0, false, 999, 0, 0, 0.001},
		{"C4", perMinute, 0, 0, 30, 30000, true, 20000, 30000, 50, 0},
		{"C5", perMinute, 1, 0, 0, 0, true, 1, 0, 0, 0},
		{"C6", perMinute, -1, 0, 0, 0, false, -1, 0, -1, 0.001},
		{"C7", perMinute, -1500, 0, 1, 0, false, -1500, 0, -2, 1.501},
		{"C8", perMinute, 100000, 0, 300, 0, false, 100000, 0, 100, 120.001},
		{"C9", perMinute, 100000, 0, -5, 0, true, 105000, 0, 100, 0},
		{"C10", perMinute, 2000, 60000, 3, 0, false, 2000, 60000, 2, 0.601},
		{"C11", threeADay, 0, 0, 1, 1000, false, 0, 0, 0, 28800.001},
		{"C12", sevenAMinute, 0, 0, 1, 9, false, 1, 8, 0, 8.563},
		{"S1 rpm", perMinute, 0, 0, 1, 1000, true, 666, 999, 1, 0},
		{"S1 tpm", oneAMinute, 0, 0, 100, 1000, false, 16, 960, 0, 5999.041},
	} {
		t.Run(c.id, func(t *testing.T) {
			s := referenceRefill(t, stateOf(c.tokens, c.at, c.rate), c.now)
			if got := bucket.Whole(s.Tokens); got != c.available {
				t.Errorf("%d available, want %d", got, c.available)
			}
			deficit := bucket.Sub(bucket.Thousandths(c.requested), s.Tokens)
			if ok := deficit <= 0; ok != c.ok {
				t.Errorf("admitted %v, want %v", ok, c.ok)
			}
			if got := bucket.Wait(deficit, c.rate).Seconds(); got != c.retryAfter {
				t.Errorf("retry after %v s, want %v", got, c.retryAfter)
			}
			if c.ok {
				s.Tokens = bucket.Sub(0, deficit)
			}
			if want := stateOf(c.wantTokens, c.wantTime, c.rate); s != want {
				t.Errorf("left %+v, want %+v", s, want)
			}
		})
	}
}

// TestForceConsumeVectors checks debits that ignore the balance, and give-backs
// that ignore the capacity.
func TestForceConsumeVectors(t *testing.T) {
	const at = 1_700_000_000_000
	for _, c := range []struct {
		id                        string
		tokens, amount, later     int64
		wantTokens, wantTimeMoved int64
	}{
		{"F1", 100000, 150, 0, -50000, 0},
		{"F2", 100000, -50, 0, 150000, 0},
		{"F3", 0, 80, 30000, -30000, 30000},
		{"F4", -10000, 5, 600, -14000, 600},
	} {
		t.Run(c.id, func(t *testing.T) {
			got := referenceRefill(t, stateOf(c.tokens, at, perMinute), at+c.later)
			got.Tokens = bucket.Sub(got.Tokens, bucket.Thousandths(c.amount))
			if want := stateOf(c.wantTokens, at+c.wantTimeMoved, perMinute); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
