package bucket_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// extremes are the signed values around which sums, products and negations
// overflow int64.
var extremes = []int64{
	math.MinInt64, math.MinInt64 + 1, -bucket.MaxTokens - 1, -bucket.MaxTokens, -1000, -1,
	0, 1, 1000, bucket.MaxTokens, bucket.MaxTokens + 1, math.MaxInt64 - 1, math.MaxInt64,
}

// source draws numbers for tests. A uniform int64 is nearly always huge, so it
// mixes extremes and every width of number.
type source struct{ *rand.Rand }

// newSource seeds a source and logs the seed, which go test shows on failure.
func newSource(tb testing.TB, seed uint64) source {
	tb.Helper()
	tb.Logf("seed %d", seed)
	return source{rand.New(rand.NewPCG(seed, seed))}
}

func (s source) number() int64 {
	if s.IntN(4) == 0 {
		return extremes[s.IntN(len(extremes))]
	}
	n := int64(s.Uint64() >> s.IntN(64))
	if s.IntN(2) == 0 {
		return -n // math.MinInt64 negates to itself, which is fine here
	}
	return n
}

func (s source) rate() bucket.Rate { return rateOf(s.number(), s.number(), s.number()) }

// upTo returns a number from 0 to limit, both included.
func (s source) upTo(limit uint64) uint64 {
	if limit == math.MaxUint64 {
		return s.Uint64()
	}
	return s.Uint64N(limit + 1)
}

// rateOf maps any three numbers to a valid rate.
func rateOf(capacity, amount, period int64) bucket.Rate {
	return bucket.Rate{Capacity: positive(capacity), Amount: positive(amount), Period: positive(period)}
}

func positive(n int64) int64 {
	return max(n&math.MaxInt64, 1)
}

func stateOf(tokens, at int64, r bucket.Rate) bucket.State {
	return bucket.State{Rate: r, Tokens: tokens, At: at}
}

// everywhere visits every combination of n extreme numbers and a rate, and then
// random ones.
func everywhere(t *testing.T, n int, visit func(v []int64, r bucket.Rate)) {
	t.Helper()
	corners(make([]int64, n), 0, visit)
	s := newSource(t, 20)
	v := make([]int64, n)
	for range 2000 {
		for i := range v {
			v[i] = s.number()
		}
		visit(v, s.rate())
	}
}

func corners(v []int64, set int, visit func(v []int64, r bucket.Rate)) {
	if set < len(v) {
		for _, n := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
			v[set] = n
			corners(v, set+1, visit)
		}
		return
	}
	sizes := []int64{1, math.MaxInt64}
	for _, capacity := range sizes {
		for _, amount := range sizes {
			for _, period := range sizes {
				visit(v, bucket.Rate{Capacity: capacity, Amount: amount, Period: period})
			}
		}
	}
}
