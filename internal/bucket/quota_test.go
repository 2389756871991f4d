package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// TestQuotaWaitsForTheBoundaryThatCovers checks that a wait ends at the first
// millisecond at which the steps cover a deficit, and that a bucket is full then.
func TestQuotaWaitsForTheBoundaryThatCovers(t *testing.T) {
	s := newSource(t, 51)
	all := windows(t)
	for range 20_000 {
		r := bucket.Rate{Capacity: 1 + s.Int64N(100_000), Window: all[s.IntN(len(all))], Peak: s.Int64N(200_000)}
		at := s.Int64N(4e12)
		tokens := r.Capacity - s.Int64N(4*r.Capacity)
		need := min(r.Capacity, tokens+1+s.Int64N(r.Capacity-tokens+1))
		if need <= tokens {
			continue
		}
		end := at + bucket.WaitAt(need-tokens, at, r).Duration().Milliseconds()
		if got := bucket.Advance(tokens, at, end, r); got < need {
			t.Fatalf("%+v: %d tokens at %d, %d after the wait, want %d", r, tokens, at, got, need)
		}
		if got := bucket.Advance(tokens, at, end-1, r); got >= need {
			t.Fatalf("%+v: %d tokens at %d, %d before the end of the wait", r, tokens, at, got)
		}
		full := bucket.FullAt(tokens, at, r)
		if got := bucket.Advance(tokens, at, full, r); got != r.Capacity {
			t.Fatalf("%+v: %d tokens at %d, %d when it should be full", r, tokens, at, got)
		}
		if got := bucket.Advance(tokens, at, full-1, r); got == r.Capacity {
			t.Fatalf("%+v: %d tokens at %d, full too early", r, tokens, at)
		}
	}
}

func TestQuotaTelescopes(t *testing.T) {
	s := newSource(t, 52)
	all := windows(t)
	for range 20_000 {
		r := bucket.Rate{Capacity: 1 + s.Int64N(100_000), Window: all[s.IntN(len(all))]}
		from := s.Int64N(4e12)
		mid := from + s.Int64N(1e10)
		to := mid + s.Int64N(1e10)
		if a, b, c := bucket.Accrued(from, mid, r), bucket.Accrued(mid, to, r), bucket.Accrued(from, to, r); a+b != c {
			t.Fatalf("%+v: %d, then %d, but %d at once, for %d, %d and %d", r, a, b, c, from, mid, to)
		}
		// The start of the window is as good as any time in it.
		if a, b := bucket.Accrued(from, to, r), bucket.Accrued(r.Window.Start(from), to, r); a != b {
			t.Fatalf("%+v: %d from %d, but %d from the start of its window", r, a, from, b)
		}
	}
}

func TestQuotaOfExtremes(t *testing.T) {
	for _, w := range windows(t) {
		for _, capacity := range []int64{0, 1, math.MaxInt64} {
			r := bucket.Rate{Capacity: capacity, Window: w, Peak: capacity / 2 * 3}
			for _, tokens := range extremes {
				for _, at := range extremes {
					if got := bucket.Advance(tokens, at, math.MaxInt64, r); got > capacity ||
						got < min(tokens, capacity) {
						t.Fatalf("Advance(%d, %d) of %d = %d", tokens, at, capacity, got)
					}
					if full := bucket.FullAt(tokens, at, r); full < at {
						t.Fatalf("FullAt(%d, %d) of %d = %d", tokens, at, capacity, full)
					}
					_ = bucket.WaitAt(bucket.Sub(capacity, tokens), at, r).Duration()
				}
			}
		}
	}
}
