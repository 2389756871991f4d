package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// contender is an operation to time. Its ID is unique in its section.
type contender[K comparable] struct {
	id  K
	run func(n int) error // n operations
}

// measure times every contender once a round, in turn, so that other load on
// the machine affects all of them. It returns nanoseconds per operation, one
// value for each round.
func measure[K comparable](ctx context.Context, cfg config, contenders []contender[K]) (map[K]series, error) {
	sizes := make([]int, len(contenders))
	for i, c := range contenders {
		// The sizes are found once, so that the rounds of a contender are
		// alike.
		n, err := calibrate(c.run, cfg.sample)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c.id, err)
		}
		sizes[i] = n
	}

	results := map[K]series{}
	for range cfg.rounds {
		for i, c := range contenders {
			if err := ctx.Err(); err != nil {
				return nil, err
			}

			perOp, err := sample(c.run, sizes[i])
			if err != nil {
				return nil, fmt.Errorf("%v: %w", c.id, err)
			}
			results[c.id] = append(results[c.id], perOp)
		}
	}
	return results, nil
}

// calibrate returns the number of operations that take about the given time.
func calibrate(run func(int) error, want time.Duration) (int, error) {
	for n := 16; ; n *= 4 {
		begin := time.Now()
		if err := run(n); err != nil {
			return 0, err
		}
		// A run that is too short says little about longer ones.
		if took := time.Since(begin); took > want/8 {
			return max(1, int(float64(n)*float64(want)/float64(took))), nil
		}
	}
}

// sample returns the nanoseconds of one operation, over n of them. It begins
// with a clean heap and a few untimed operations. These absorb work that came
// due while other contenders ran, such as the sweep of a store every minute,
// which would weigh far too much in a short sample.
func sample(run func(int) error, n int) (float64, error) {
	clean()
	if err := run(warmup(n)); err != nil {
		return 0, err
	}
	return timed(run, n)
}

// clean collects garbage if there is more than a little. With millions of
// objects in memory that takes longer than a sample, and most contenders make
// none.
func clean() {
	const little = 1 << 20
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	if heap[0].Value.Uint64() > heap[1].Value.Uint64()+little {
		runtime.GC()
	}
}

func warmup(n int) int { return n/20 + 1 }

func timed(run func(int) error, n int) (float64, error) {
	begin := time.Now()
	err := run(n)
	return float64(time.Since(begin).Nanoseconds()) / float64(n), err
}

// parallel returns a function that spreads n operations over workers and waits
// for all of them.
func parallel(workers int, do func(worker, n int) error) func(n int) error {
	// A goroutine would be a part of the time of a short sample.
	if workers == 1 {
		return func(n int) error { return do(0, n) }
	}
	return func(n int) error {
		errs := make([]error, workers)

		var group sync.WaitGroup
		for w := range workers {
			// The shares differ by one at most, and their sum is n.
			share := n*(w+1)/workers - n*w/workers
			group.Go(func() { errs[w] = do(w, share) })
		}

		group.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}
