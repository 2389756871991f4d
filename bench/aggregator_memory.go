package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// heapSamples is the number of heap samples while changes are processed. Each
// sample collects garbage first, so it shows the memory in use.
const heapSamples = 20

// heapWatch is a store that keeps nothing, so the memory in use belongs to the
// aggregator. It samples the heap while additions are written, when the
// aggregator has gathered everything.
type heapWatch struct {
	every int // changes between two samples

	mu         sync.Mutex
	seen, next int
	peak       uint64
}

func (w *heapWatch) AddUsage(_ context.Context, a aggregator.Addition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen += len(a.Entries); w.seen >= w.next {
		w.next += w.every
		w.peak = max(w.peak, heapInUse())
	}
	return nil
}

func (*heapWatch) Refill(context.Context, time.Time, aggregator.ID, *aggregator.State) (bool, error) {
	return true, nil
}

// heapInUse collects garbage twice, since pools keep their objects the first
// time.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	return memStats().HeapAlloc
}

// peakHeap returns the maximal growth of the heap while an aggregator gets n
// changes.
func peakHeap(n int, process func(*aggregator.Aggregator) error) (float64, error) {
	const windows = 3
	w := &heapWatch{every: max(1, windows*n/heapSamples)}
	a, err := aggregator.New(w, nil)
	if err != nil {
		return 0, err
	}

	before := heapInUse()
	err = process(a)

	// A peak without all entries would be too low.
	if w.seen != windows*n {
		err = errors.Join(err, fmt.Errorf("%d of %d entries came to the store", w.seen, windows*n))
	}
	return float64(w.peak) - float64(before), err
}

// batchHeap returns the peak for batches that are made just before the call,
// as in a Lambda function. It includes the batch.
func batchHeap(ctx context.Context, n int) (float64, error) {
	f := newFeed("ns")
	// The feed is in the heap before the changes, so it must stay there until
	// the end.
	defer runtime.KeepAlive(f)

	return peakHeap(n, func(a *aggregator.Aggregator) error {
		for left := n; left > 0; left -= functionBatch {
			if tally := dynamo.Aggregate(ctx, a, f.records(min(left, functionBatch))); tally.Err != nil {
				return tally.Err
			}
		}
		return nil
	})
}

// sliceHeap returns the peak for one call with all changes, without the
// changes.
func sliceHeap(ctx context.Context, n int) (float64, error) {
	changes, err := newFeed("ns").changes(n)
	if err != nil {
		return 0, err
	}

	// The changes are in the heap before the call, so they must stay there
	// until its end.
	defer runtime.KeepAlive(changes)

	return peakHeap(n, func(a *aggregator.Aggregator) error { return a.Process(ctx, changes).Err })
}

// aggregatorMemory compares the peaks for few and many changes. Rounds hardly
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
			rows = append(rows, []string{way.name, strconv.Itoa(n), peaks[n].per(1 << 10).show("%.0f")})
		}

		r.atMost(bound, peaks[many].over(peaks[few]), "aggregator: heap of %d changes / of %d: %s", many, few, way.name)
	}

	return r.table([]string{"heap in use, at most", "changes", "KiB"}, rows)
}

func halfOf(rounds int) int { return max(1, rounds/2) }

// heapPeaks returns the peak for each number of changes in each round. It
// drops the first round, which includes one-time allocations.
func heapPeaks(
	ctx context.Context, rounds int, sizes []int, peak func(context.Context, int) (float64, error),
) (map[int]series, error) {
	peaks := map[int]series{}
	for round := range rounds + 1 {
		for _, n := range sizes {
			bytes, err := peak(ctx, n)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			if round > 0 {
				peaks[n] = append(peaks[n], bytes)
			}
		}
	}
	return peaks, nil
}
