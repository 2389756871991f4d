package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// perMinute is the rate of the specification's vectors, 100 a minute.
var perMinute = bucket.Rate{Capacity: 100000, Amount: 100000, Period: 60000}

// TestTryConsumeVectors has the rows of the specification, 4.2.
func TestTryConsumeVectors(t *testing.T) {
	threeADay := bucket.Rate{Capacity: 3000, Amount: 3000, Period: 86400000}
	sevenAMinute := bucket.Rate{Capacity: 7000, Amount: 7000, Period: 60000}
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
	} {
		t.Run(c.id, func(t *testing.T) {
			s := stateOf(c.tokens, c.at, c.rate)
			got := bucket.TryConsume(s, c.requested, c.now)
			if got.OK != c.ok {
				t.Errorf("OK = %v, want %v", got.OK, c.ok)
			}
			if want := stateOf(c.wantTokens, c.wantTime, c.rate); got.State != want {
				t.Errorf("State = %+v, want %+v", got.State, want)
			}
			if got.Available != c.available {
				t.Errorf("Available = %d, want %d", got.Available, c.available)
			}
			if got.Wait.Seconds() != c.retryAfter {
				t.Errorf("Wait = %v s, want %v", got.Wait.Seconds(), c.retryAfter)
			}
			if got := bucket.TimeUntil(s, c.requested, c.now); got.Seconds() != c.retryAfter {
				t.Errorf("TimeUntil = %v s, want %v", got.Seconds(), c.retryAfter)
			}
			if got := bucket.Available(s, c.now); got != c.available {
				t.Errorf("Available() = %d, want %d", got, c.available)
			}
		})
	}
}

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
			got := bucket.ForceConsume(stateOf(c.tokens, at, perMinute), c.amount, at+c.later)
			if want := stateOf(c.wantTokens, at+c.wantTimeMoved, perMinute); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAvailableVectors(t *testing.T) {
	t.Run("A1", func(t *testing.T) {
		for tokens, want := range map[int64]int64{1999: 1, 999: 0, -1: -1, -1000: -1, -1001: -2} {
			if got := bucket.Available(stateOf(tokens, 5, perMinute), 5); got != want {
				t.Errorf("Available(%d) = %d, want %d", tokens, got, want)
			}
		}
	})
}

func TestWouldRefillSatisfyVectors(t *testing.T) {
	// The row's name without a bucket is the caller's to drop: needs have none.
	t.Run("S1", func(t *testing.T) {
		slow := bucket.Rate{Capacity: 1000, Amount: 1000, Period: 60000}
		needs := []bucket.Need{
			{State: stateOf(0, 0, perMinute), Amount: 1},
			{State: stateOf(0, 0, slow), Amount: 100},
		}
		ok, tries := bucket.WouldRefillSatisfy(needs, 1000)
		if ok || len(tries) != 2 {
			t.Fatalf("got %v with %d tries, want false with 2", ok, len(tries))
		}
		if rpm := tries[0]; !rpm.OK || rpm.Available != 1 || !rpm.Wait.IsZero() {
			t.Errorf("rpm: %+v", rpm)
		}
		tpm := tries[1]
		if tpm.OK || tpm.Available != 0 || tpm.Wait.Seconds() != 5999.041 {
			t.Errorf("tpm: %+v, %v s", tpm, tpm.Wait.Seconds())
		}
		if deficit := needs[1].Amount - tpm.Available; deficit != 100 {
			t.Errorf("tpm deficit %d, want 100", deficit)
		}
		if needs[0].State != stateOf(0, 0, perMinute) || needs[1].State != stateOf(0, 0, slow) {
			t.Errorf("the needs were changed: %+v", needs)
		}
	})
	t.Run("S2", func(t *testing.T) {
		ok, tries := bucket.WouldRefillSatisfy([]bucket.Need{{State: stateOf(-5000, 0, perMinute)}}, 1000)
		if !ok || len(tries) != 0 {
			t.Errorf("got %v, %+v, want true and nothing", ok, tries)
		}
	})
}

func TestWouldRefillSatisfy(t *testing.T) {
	full, empty := stateOf(100000, 0, perMinute), stateOf(0, 0, perMinute)
	for _, c := range []struct {
		name  string
		needs []bucket.Need
		want  []bool
	}{
		{"nothing", nil, nil},
		{"all fit", []bucket.Need{{full, 1}, {full, 100}}, []bool{true, true}},
		// A refusal neither ends the list nor is undone by what fits after it.
		{"refusal first", []bucket.Need{{empty, 1}, {full, 1}}, []bool{false, true}},
		{"zero between", []bucket.Need{{full, 1}, {empty, 0}, {full, 2}}, []bool{true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok, tries := bucket.WouldRefillSatisfy(c.needs, 0)
			if len(tries) != len(c.want) {
				t.Fatalf("%d tries, want %d", len(tries), len(c.want))
			}
			all := true
			for i, try := range tries {
				all = all && c.want[i]
				if try.OK != c.want[i] {
					t.Errorf("try %d: OK = %v, want %v", i, try.OK, c.want[i])
				}
			}
			if ok != all {
				t.Errorf("ok = %v, want %v", ok, all)
			}
		})
	}
}
