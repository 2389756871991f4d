package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// TestWaitVectors checks the rows of the specification, 4.2.
func TestWaitVectors(t *testing.T) {
	for _, c := range []struct {
		id                      string
		deficit, amount, period int64
		want                    float64
	}{
		{"W1", 0, 100000, 60000, 0},
		{"W1 negative", -7, 100000, 60000, 0},
		{"W2", 1, 100000, 60000, 0.001},
		{"W3", 10000, 100000, 60000, 6.001},
		{"W4", 9999, 7000, 60000, 85.706},
		{"W5", 1e15, 1000, 86400000, 8.64e16},
	} {
		t.Run(c.id, func(t *testing.T) {
			got := bucket.Wait(c.deficit, bucket.Rate{Capacity: 1, Amount: c.amount, Period: c.period})
			if got.Seconds() != c.want {
				t.Errorf("got %v s, want %v", got.Seconds(), c.want)
			}
			if got.IsZero() != (c.want == 0) {
				t.Errorf("IsZero() = %v", got.IsZero())
			}
		})
	}
}

// TestWaitCoversTheDeficit checks that the tokens are there after the wait,
// whenever it began.
func TestWaitCoversTheDeficit(t *testing.T) {
	s := newSource(t, 31)
	covered := 0
	for range 10_000 {
		r := rateOf(math.MaxInt64, s.number(), s.number())
		deficit, from := positive(s.number()), s.number()
		wait := bucket.Wait(deficit, r).Duration()
		ms := wait.Milliseconds()
		if wait == math.MaxInt64 || from > math.MaxInt64-ms {
			continue // beyond the last time
		}
		covered++
		if got := bucket.Advance(-deficit, from, from+ms, r); got < 0 {
			t.Fatalf("%+v, deficit %d: %d short after %d ms from %d", r, deficit, -got, ms, from)
		}
		if got := referenceRefill(t, stateOf(-deficit, from, r), from+ms); got.Tokens < 0 {
			t.Fatalf("%+v, deficit %d: the reference is %d short after %d ms from %d", r, deficit, -got.Tokens, ms,
				from)
		}
	}
	if covered < 1000 {
		t.Errorf("only %d cases were usable", covered)
	}
}

// TestWaitIsTight checks that Wait adds only one millisecond: two milliseconds
// earlier the tokens may be missing.
func TestWaitIsTight(t *testing.T) {
	s := newSource(t, 32)
	for range 2000 {
		r := bucket.Rate{Capacity: math.MaxInt64, Amount: 1 + s.Int64N(1e6), Period: 1 + s.Int64N(day)}
		deficit := 1 + s.Int64N(1e6)
		ms := bucket.Wait(deficit, r).Duration().Milliseconds()
		if ms < 3 {
			continue
		}
		if got := bucket.Advance(-deficit, 0, ms-2, r); got >= 0 {
			t.Fatalf("%+v, deficit %d: there after %d of %d ms", r, deficit, ms-2, ms)
		}
	}
}

func TestDurationStopsAtTheLongest(t *testing.T) {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	each := bucket.Rate{Capacity: 1, Amount: 1, Period: 1} // the wait is deficit+1
	for _, c := range []struct {
		deficit int64
		want    time.Duration
	}{
		{0, 0},
		{1, 2 * time.Millisecond},
		{longest - 1, time.Duration(longest) * time.Millisecond},
		{longest, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64},
	} {
		if got := bucket.Wait(c.deficit, each).Duration(); got != c.want {
			t.Errorf("deficit %d: %d, want %d", c.deficit, got, c.want)
		}
	}
	endless := bucket.Rate{Capacity: 1, Amount: 1, Period: math.MaxInt64}
	if got := bucket.Wait(math.MaxInt64, endless).Duration(); got != math.MaxInt64 {
		t.Errorf("a wait of 126 bits: %d", got)
	}
}

func TestSecondsRoundsTheIntegerFirst(t *testing.T) {
	each := bucket.Rate{Capacity: 1, Amount: 1, Period: 1}
	const even = 1 << 53
	for _, c := range []struct {
		ms   int64
		want float64
	}{
		{even - 1, (even - 1) / 1000.0},
		{even + 1, float64(even) / 1000}, // a tie, to the even neighbour below
		{even + 3, float64(even+4) / 1000},
		{math.MaxInt64, float64(1<<63) / 1000},
	} {
		if got := bucket.Wait(c.ms-1, each).Seconds(); got != c.want {
			t.Errorf("%d ms: %v s, want %v", c.ms, got, c.want)
		}
	}
}
