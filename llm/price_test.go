package llm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestCost(t *testing.T) {
	p := Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, Request: 7}
	for _, tc := range []struct {
		name  string
		price Price
		usage Usage
		want  int64
	}{
		{"nothing but the request", p, Usage{}, 7},
		{"a token of the prompt", p, Usage{Input: 1}, 7 + 3},
		{"a token of the answer", p, Usage{Output: 1}, 7 + 15},
		{"a token from the cache is rounded up", p, Usage{Input: 1, Cached: 1}, 7 + 1},
		{"a token to the cache is rounded up", p, Usage{Input: 1, Written: 1}, 7 + 4},
		{"both are rounded up once", p, Usage{Input: 2, Cached: 1, Written: 1}, 7 + 5}, // 4.05
		{"all parts", p, Usage{Input: 1000, Output: 100, Cached: 400, Written: 200}, 7 + 400*3 + 120 + 750 + 1500},
		{"cached beyond the prompt", p, Usage{Input: 10, Cached: 50, Written: 50}, 7 + 3},
		{"negative tokens", p, Usage{Input: -5, Output: -5, Cached: -5, Written: -5}, 7},
		{
			"negative prices",
			Price{Input: -1, Output: -1, CacheRead: -1, CacheWrite: -1, Request: -1},
			Usage{Input: 9, Output: 9, Cached: 3, Written: 3},
			0,
		},
		{"free", Price{}, Usage{Input: math.MaxInt64, Output: math.MaxInt64}, 0},
		{"less than a millionth", Price{Input: 1}, Usage{Input: 1}, 1},
		{"a million tokens", Price{Input: 1}, Usage{Input: 1_000_000}, 1},
		{"one more", Price{Input: 1}, Usage{Input: 1_000_001}, 2},
		{"too much", Price{Input: math.MaxInt64}, Usage{Input: math.MaxInt64}, math.MaxInt64},
		{"too much with the request", Price{Input: 1_000_000, Request: 1}, Usage{Input: math.MaxInt64}, math.MaxInt64},
		{"the most", Price{Input: 1_000_000}, Usage{Input: math.MaxInt64}, math.MaxInt64},
	} {
		if got := tc.price.Cost(tc.usage); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Cost agrees with arithmetic that has no bounds.
func TestCostIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() int64 { return r.Int64() >> r.IntN(63) }
	for range 50_000 {
		p := Price{Input: draw(), Output: draw(), CacheRead: draw(), CacheWrite: draw(), Request: draw()}
		u := Usage{Input: draw(), Output: draw()}
		u.Cached = r.Int64N(u.Input/2 + 1)
		u.Written = r.Int64N(u.Input/2 + 1)
		if got, want := p.Cost(u), exactCost(p, u); got != want {
			t.Fatalf("%+v of %+v costs %d, want %d", u, p, got, want)
		}
	}
}

// exactCost computes a cost without bounds, and returns at most math.MaxInt64.
func exactCost(p Price, u Usage) int64 {
	sum := new(big.Int)
	for _, part := range [][2]int64{
		{p.Input, u.Input - u.Cached - u.Written},
		{p.CacheRead, u.Cached},
		{p.CacheWrite, u.Written},
		{p.Output, u.Output},
	} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	sum.Add(sum, new(big.Int).Mul(big.NewInt(p.Request), big.NewInt(1_000_000)))
	cost, rest := new(big.Int).DivMod(sum, big.NewInt(1_000_000), new(big.Int))
	if rest.Sign() > 0 {
		cost.Add(cost, big.NewInt(1))
	}
	if !cost.IsInt64() {
		return math.MaxInt64
	}
	return cost.Int64()
}

// The longest answer that an amount pays for costs that amount at most, and one
// token more costs more.
func TestOutputFor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		p := Price{Output: 1 + r.Int64()>>r.IntN(63)}
		room := r.Int64() >> r.IntN(63)
		n := p.outputFor(room)
		if n == math.MaxInt64 {
			continue // more tokens than there are
		}
		if least, more := p.Cost(Usage{Output: n}), p.Cost(Usage{Output: n + 1}); least > room || more <= room &&
			more < math.MaxInt64 {
			t.Fatalf("%d at %d: %d tokens cost %d, and one more %d", room, p.Output, n, least, more)
		}
	}
	if got := (Price{}).outputFor(0); got != math.MaxInt64 {
		t.Errorf("free answers: %d", got)
	}
	if got := (Price{Output: 5}).outputFor(-3); got != 0 {
		t.Errorf("no room: %d", got)
	}
}

func TestDollars(t *testing.T) {
	for n, want := range map[int64]string{
		0: "$0.00", 1: "$0.000001", 125: "$0.000125", 10_000: "$0.01", 12_500_000: "$12.50", 1_234_500: "$1.2345",
		-50_000_000:   "-$50.00",
		math.MaxInt64: "$9223372036854.775807", math.MinInt64: "-$9223372036854.775808",
	} {
		if got := Dollars(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
