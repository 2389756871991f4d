package loadtest

import (
	"math"
	"slices"
)

// zipf is the distribution in which rank k of n, counted from 0, has a
// probability in proportion to (k+1)^-alpha.
type zipf struct{ sums []float64 }

func newZipf(alpha float64, n int) *zipf {
	z := &zipf{sums: make([]float64, n)}
	sum := 0.0
	for k := range z.sums {
		sum += math.Pow(float64(k+1), -alpha)
		z.sums[k] = sum
	}
	return z
}

// rank returns the rank at a point between 0 and 1, without 1.
func (z *zipf) rank(at float64) int {
	last := len(z.sums) - 1
	k, _ := slices.BinarySearch(z.sums, at*z.sums[last])
	return min(k, last)
}
