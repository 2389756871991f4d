package bucket_test

import (
	"math"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

const day = 86_400_000

func TestAdvanceStaysWithinCapacity(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) {
		if got := bucket.Advance(v[0], v[1], v[2], r); got > r.Capacity || got < min(v[0], r.Capacity) {
			t.Fatalf("Advance(%d, %d, %d, %+v) = %d", v[0], v[1], v[2], r, got)
		}
	})
}

func TestAdvanceClampsWhenNothingAccrues(t *testing.T) {
	r := bucket.Rate{Capacity: 100_000, Amount: 100_000, Period: day}
	for _, to := range []int64{math.MinInt64, 4999, 5000, 5001, math.MaxInt64} {
		if got := bucket.Advance(150_000, 5000, to, r); got != r.Capacity {
			t.Errorf("to %d: %d, want the capacity", to, got)
		}
	}
}

func TestAdvanceIsMonotoneInTo(t *testing.T) {
	everywhere(t, 4, func(v []int64, r bucket.Rate) {
		early, late := min(v[2], v[3]), max(v[2], v[3])
		a, b := bucket.Advance(v[0], v[1], early, r), bucket.Advance(v[0], v[1], late, r)
		if a > b {
			t.Fatalf("Advance(%d, %d, ..., %+v): %d at %d but %d at %d", v[0], v[1], r, a, early, b, late)
		}
	})
}

// chain advances through the times given, one call for each gap.
func chain(tokens int64, times []int64, r bucket.Rate) int64 {
	for i, to := range times[1:] {
		tokens = bucket.Advance(tokens, times[i], to, r)
	}
	return tokens
}

// split returns from and to with up to n ordered times between them, which may
// repeat.
func (s source) split(from, to int64, n int) []int64 {
	times := []int64{from, to}
	for range s.IntN(n + 1) {
		times = append(times, int64(uint64(from)+s.upTo(uint64(to)-uint64(from))))
	}
	slices.Sort(times)
	return times
}

func TestAdvanceSplits(t *testing.T) {
	s := newSource(t, 11)
	for range 3000 {
		a, b, tokens, r := s.number(), s.number(), s.number(), s.rate()
		times := s.split(min(a, b), max(a, b), 8)
		whole := bucket.Advance(tokens, times[0], times[len(times)-1], r)
		if got := chain(tokens, times, r); got != whole {
			t.Fatalf("tokens %d, %+v, times %v: %d in parts, %d at once", tokens, r, times, got, whole)
		}
	}
}

// TestAdvanceSplitsAtEverydaySizes uses numbers of everyday size: random ones are
// mostly so large that a bucket fills at once or never. Half of the cases end
// full.
func TestAdvanceSplitsAtEverydaySizes(t *testing.T) {
	const epoch = 1_700_000_000_000
	s := newSource(t, 12)
	for i := range 2000 {
		r := bucket.Rate{Amount: 1 + s.Int64N(1e8), Period: 1 + s.Int64N(30*day)}
		from := epoch + s.Int64N(day)
		to, tokens := from+s.Int64N(day), -s.Int64N(1e6)
		clamped := i%2 == 0
		gain := bucket.Accrued(from, to, r)
		r.Capacity = tokens + gain + 1
		if clamped {
			r.Capacity = tokens + gain/2
		}
		times := s.split(from, to, 30)
		want := min(tokens+gain, r.Capacity)
		if got := chain(tokens, times, r); got != want {
			t.Fatalf("tokens %d, %+v, times %v: %d in parts, want %d (clamped %v)", tokens, r, times, got, want,
				clamped)
		}
		if got := bucket.Advance(tokens, from, to, r); got != want {
			t.Fatalf("Advance(%d, %d, %d, %+v) = %d, want %d", tokens, from, to, r, got, want)
		}
	}
}

// TestSlowLimitIsNotStarved checks that a slow limit gains tokens beside a busy
// one whose charges write the bucket again and again (B-1).
func TestSlowLimitIsNotStarved(t *testing.T) {
	r := bucket.Rate{Capacity: 100_000, Amount: 100_000, Period: day}
	const span = 200_000
	for _, step := range []int64{1, 7, 500, 863, span} {
		tokens, stored := int64(0), stateOf(0, 0, r)
		for stored.At < span {
			now := min(stored.At+step, span)
			tokens = bucket.Advance(tokens, stored.At, now, r)
			stored = referenceRefill(t, stored, now)
			stored.At = now // the reference writes now, not the time that its refill returned
		}
		if tokens != 231 {
			t.Errorf("step %d ms: gained %d, want 231", step, tokens)
		}
		if step < 864 && stored.Tokens != 0 {
			t.Errorf("step %d ms: the reference gained %d, so the case shows nothing", step, stored.Tokens)
		}
	}
}

func TestMillisecondStepsGainTheSame(t *testing.T) {
	s := newSource(t, 13)
	rates := []bucket.Rate{
		{Capacity: 1e15, Amount: 1000, Period: 30 * day},
		{Capacity: 1e15, Amount: 7000, Period: 60_000},
		{Capacity: 1e15, Amount: 100_000_000, Period: 60_000},
		{Capacity: 1000, Amount: 7000, Period: 60_000},
	}
	for _, r := range rates {
		for _, from := range []int64{-5000, 0, s.Int64N(2e12)} {
			tokens := int64(0)
			for at := from; at < from+10_000; at++ {
				tokens = bucket.Advance(tokens, at, at+1, r)
			}
			if want := bucket.Advance(0, from, from+10_000, r); tokens != want {
				t.Errorf("%+v from %d: %d by milliseconds, %d at once", r, from, tokens, want)
			}
		}
	}
}
