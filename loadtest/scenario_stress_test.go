package loadtest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestZipf compares 300,000 ranks with the exact distribution by chi-square.
func TestZipf(t *testing.T) {
	const n, draws, cells = 15_998, 300_000, 50
	const alpha = 1.5
	z := newZipf(alpha, n)
	random := rand.New(rand.NewPCG(1, 2))
	var seen [cells + 1]float64
	for range draws {
		seen[min(z.rank(random.Float64()), cells)]++
	}
	total := 0.0
	for k := 1; k <= n; k++ {
		total += math.Pow(float64(k), -alpha)
	}
	chi, rest := 0.0, 1.0
	for k := range cells {
		p := math.Pow(float64(k+1), -alpha) / total
		rest -= p
		chi += square(seen[k]-draws*p) / (draws * p)
	}
	chi += square(seen[cells]-draws*rest) / (draws * rest)
	if chi > 93.2 { // the 0.9998 quantile of 50 degrees of freedom
		t.Errorf("chi-square is %.1f, want less than 93", chi)
	}
	if z.rank(0) != 0 || z.rank(math.Nextafter(1, 0)) != n-1 {
		t.Errorf("ranks run from %d to %d, want 0 to %d", z.rank(0), z.rank(math.Nextafter(1, 0)), n-1)
	}
}

func square(x float64) float64 { return x * x }
