package main

import (
	"runtime"
	"time"
)

// freeCPUs returns how many CPUs this program gets at the moment: the speedup
// of some arithmetic on one goroutine for each CPU. If other programs are
// busy, rows with several goroutines mean little.
func freeCPUs() float64 {
	const work, tries = 20_000_000, 5
	var speedups series
	for range tries {
		speedups = append(speedups, spinning(1, work).Seconds()/spinning(runtime.NumCPU(), work).Seconds())
	}
	return speedups.median()
}

func spinning(workers, n int) time.Duration {
	sums := make([]int, workers)
	begin := time.Now()
	_ = parallel(workers, func(w, n int) error { // never fails
		sum := 1
		for i := range n {
			sum = sum*31 + i
		}
		// The compiler would drop a loop without a result.
		sums[w] = sum
		return nil
	})(n)
	return time.Since(begin)
}
