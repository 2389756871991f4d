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
