package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

func TestWhole(t *testing.T) {
	for in, want := range map[int64]int64{
		0: 0, 1: 0, 999: 0, 1000: 1, 1999: 1, 2000: 2,
		-1: -1, -999: -1, -1000: -1, -1001: -2,
		math.MaxInt64: bucket.MaxTokens,
		math.MinInt64: -bucket.MaxTokens - 1,
	} {
		if got := bucket.Whole(in); got != want {
			t.Errorf("Whole(%d) = %d, want %d", in, got, want)
		}
	}
}

func TestThousandths(t *testing.T) {
	for in, want := range map[int64]int64{
		0: 0, 1: 1000, -1: -1000,
		bucket.MaxTokens:      bucket.MaxTokens * 1000,
		bucket.MaxTokens + 1:  math.MaxInt64,
		math.MaxInt64:         math.MaxInt64,
		-bucket.MaxTokens:     -bucket.MaxTokens * 1000,
		-bucket.MaxTokens - 1: math.MinInt64,
		math.MinInt64:         math.MinInt64,
	} {
		if got := bucket.Thousandths(in); got != want {
			t.Errorf("Thousandths(%d) = %d, want %d", in, got, want)
		}
	}
}

func TestThousandthsAndWholeAreInverse(t *testing.T) {
	s := newSource(t, 41)
	for range 1000 {
		tokens := s.number() % (bucket.MaxTokens + 1)
		if got := bucket.Whole(bucket.Thousandths(tokens)); got != tokens {
			t.Fatalf("Whole(Thousandths(%d)) = %d", tokens, got)
		}
	}
}

func TestAddAndSub(t *testing.T) {
	check := func(a, b int64) {
		t.Helper()
		if got, want := bucket.Add(a, b), within64(plus(num(a), num(b))); got != want {
			t.Errorf("Add(%d, %d) = %d, want %d", a, b, got, want)
		}
		if got, want := bucket.Sub(a, b), within64(minus(num(a), num(b))); got != want {
			t.Errorf("Sub(%d, %d) = %d, want %d", a, b, got, want)
		}
	}
	for _, a := range extremes {
		for _, b := range extremes {
			check(a, b)
		}
	}
	s := newSource(t, 42)
	for range 2000 {
		check(s.number(), s.number())
	}
}

func TestFillTime(t *testing.T) {
	for _, c := range []struct {
		name                           string
		capacity, amount, period, want int64
	}{
		{"one period", 100000, 100000, 60000, 60000},
		{"rounded up", 1, 7000, 60000, 9},
		{"less than a millisecond", 1, 100000000, 60000, 1},
		{"nothing to fill", 0, 1000, 1000, 0},
		{"below nothing", math.MinInt64, 1000, 1000, 0},
		{"longest that fits", math.MaxInt64, 1, 1, math.MaxInt64},
		{"one too long", 1<<62 + 1, 1, 2, math.MaxInt64},
		{"of 126 bits", math.MaxInt64, 1, math.MaxInt64, math.MaxInt64},
		{"large but short", math.MaxInt64, math.MaxInt64, 60000, 60000},
		{"never, no amount", 1000, 0, 1000, math.MaxInt64},
		{"never, no period", 1000, 1000, 0, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bucket.Rate{Capacity: c.capacity, Amount: c.amount, Period: c.period}
			if got := bucket.FillTime(r); got != c.want {
				t.Errorf("FillTime(%+v) = %d, want %d", r, got, c.want)
			}
		})
	}
}

func TestFillTimeFills(t *testing.T) {
	s := newSource(t, 43)
	for range 2000 {
		r := bucket.Rate{Capacity: 1 + s.Int64N(1e9), Amount: 1 + s.Int64N(1e6), Period: 1 + s.Int64N(day)}
		if got := bucket.Advance(0, 0, bucket.FillTime(r), r); got != r.Capacity {
			t.Fatalf("%+v: %d after the fill time", r, got)
		}
		if got := bucket.Advance(0, 0, bucket.FillTime(r)-1, r); got >= r.Capacity {
			t.Fatalf("%+v: full before the fill time", r)
		}
	}
}

// Amounts whose thousandths leave int64 are still exact as long as what
// remains of the bucket fits; only that is kept within int64.
func TestAmountsBeyondThousandths(t *testing.T) {
	const beyond = bucket.MaxTokens + 1 // 192 thousandths too many for an int64
	const lowest = math.MinInt64
	for _, c := range []struct {
		name                 string
		tokens, amount, want int64
	}{
		{"debit that fits", math.MaxInt64, beyond, -193},
		{"debit near twice the range", math.MaxInt64, 2 * bucket.MaxTokens, -9223372036854774193},
		{"debit that does not fit", 0, beyond, lowest},
		{"largest debit", math.MaxInt64, math.MaxInt64, lowest},
		{"credit that fits", -1000, -beyond, math.MaxInt64 - 807},
		{"credit that does not fit", 0, -beyond, math.MaxInt64},
		{"largest credit", lowest, lowest, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stateOf(c.tokens, 0, perMinute)
			if got := bucket.ForceConsume(s, c.amount, 0); got.Tokens != c.want {
				t.Errorf("ForceConsume left %d, want %d", got.Tokens, c.want)
			}
			if c.amount > 0 {
				return
			}
			if got := bucket.TryConsume(s, c.amount, 0); !got.OK || got.State.Tokens != c.want {
				t.Errorf("TryConsume: %v, left %d, want %d", got.OK, got.State.Tokens, c.want)
			}
		})
	}
}

// The quotient is 2^128-1 to the digit, the one to which the millisecond on top
// can no longer be added: a refusal must not come with nothing to wait for.
func TestWaitOfAll128Bits(t *testing.T) {
	r := bucket.Rate{Capacity: 1, Amount: 1, Period: 4_409_356_971_440_722_177}
	s := stateOf(-415, 0, r)
	got := bucket.TryConsume(s, 77_172_787_126_317_404, 0)
	if got.OK || got.Wait.IsZero() {
		t.Errorf("TryConsume: OK %v, wait %v s", got.OK, got.Wait.Seconds())
	}
	if want := math.Ldexp(1, 128) / 1000; got.Wait.Seconds() != want {
		t.Errorf("Wait = %v s, want %v", got.Wait.Seconds(), want)
	}
	if bucket.TimeUntil(s, 77_172_787_126_317_404, 0).IsZero() {
		t.Error("TimeUntil is zero")
	}
}
