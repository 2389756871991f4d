package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// heapSamples is how often the heap is looked at while changes are processed:
// each look collects garbage first, so it sees what is in use.
const heapSamples = 20

// heapWatch is a store that keeps nothing, so that what is in use is the
// aggregator's. It looks at the heap now and then while additions are written:
// everything is gathered by then.
type heapWatch struct {
	every int // changes from one look to the next

	mu         sync.Mutex
	seen, next int
	most       uint64
}

func (w *heapWatch) AddUsage(_ context.Context, a aggregator.Addition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen += len(a.Entries); w.seen >= w.next {
		w.next += w.every
		w.most = max(w.most, heapInUse())
	}
	return nil
}

func (*heapWatch) Refill(context.Context, time.Time, aggregator.ID, *aggregator.State) (bool, error) {
	return true, nil
}

// heapInUse collects twice, since the first time pools keep what they hold.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	return memStats().HeapAlloc
}

// watched is how much more than before is in use, at most, while n changes are
// given to an aggregator.
func watched(n int, process func(*aggregator.Aggregator) error) (float64, error) {
	const windows = 3
	w := &heapWatch{every: max(1, windows*n/heapSamples)}
	a, err := aggregator.New(w, nil)
	if err != nil {
		return 0, err
	}
	before := heapInUse()
	err = process(a)
	if w.seen != windows*n {
		err = errors.Join(err, fmt.Errorf("%d of %d entries came to the store", w.seen, windows*n))
	}
	return float64(w.most) - float64(before), err
}

// batchHeap is that of changes as a function gets them, made just before: the
// batch counts too.
func batchHeap(ctx context.Context, n int) (float64, error) {
	f := newFeed("ns")
	defer runtime.KeepAlive(f)
	return watched(n, func(a *aggregator.Aggregator) error {
		for left := n; left > 0; left -= functionBatch {
			if tally := dynamo.Aggregate(ctx, a, f.records(min(left, functionBatch))); tally.Err != nil {
				return tally.Err
			}
		}
		return nil
	})
}

// sliceHeap is that of one call with all changes, beyond them.
func sliceHeap(ctx context.Context, n int) (float64, error) {
	changes, err := newFeed("ns").changes(n)
	if err != nil {
		return 0, err
	}
	defer runtime.KeepAlive(changes)
	return watched(n, func(a *aggregator.Aggregator) error { return a.Process(ctx, changes).Err })
}

// aggregatorMemory compares what few and many changes need at most. Rounds hardly
// differ, so half of them are enough.
func aggregatorMemory(ctx context.Context, cfg config, r *report) error {
	const bound = 1.2
	few, many := cfg.changes[0], cfg.changes[len(cfg.changes)-1]
	var rows [][]string
	for _, way := range []struct {
		name string
		peak func(context.Context, int) (float64, error)
	}{
		{"Aggregate, 100 at a time, with them", batchHeap},
		{"Process, all at once, beyond them", sliceHeap},
	} {
		peaks, err := heapPeaks(ctx, halfOf(cfg.rounds), []int{few, many}, way.peak)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		for _, n := range []int{few, many} {
			rows = append(rows, []string{way.name, strconv.Itoa(n), kibibytes(peaks[n])})
		}
		r.atMost(bound, peaks[many].over(peaks[few]), "aggregator: heap of %d changes / of %d: %s", many, few, way.name)
	}
	return r.table([]string{"heap in use, at most", "changes", "KiB"}, rows)
}

func halfOf(rounds int) int { return max(1, rounds/2) }

// heapPeaks is the peak for each number of changes in each round. The first
// round is not kept: what is made once in a process is made then.
func heapPeaks(ctx context.Context, rounds int, sizes []int, peak func(context.Context, int) (float64, error)) (map[int]series, error) {
	peaks := map[int]series{}
	for round := range rounds + 1 {
		for _, n := range sizes {
			most, err := peak(ctx, n)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			if round > 0 {
				peaks[n] = append(peaks[n], most)
			}
		}
	}
	return peaks, nil
}

func kibibytes(s series) string {
	out := make(series, len(s))
	for i := range s {
		out[i] = s[i] / 1024
	}
	return out.show("%.0f")
}
