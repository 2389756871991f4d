package main

import (
	"context"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// TestAllCountTheSame checks that the plain loop, an aggregator with changes
// and one with records get the same sums. Only then their times can be
// compared.
func TestAllCountTheSame(t *testing.T) {
	const n = 1000
	changes, err := newFeed("ns").changes(n)
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	for key, sum := range plainSums(changes) {
		if key.limit == "tpm" {
			want += sum
		}
	}
	process := func(ctx context.Context, a *aggregator.Aggregator) error { return a.Process(ctx, changes).Err }
	aggregate := func(ctx context.Context, a *aggregator.Aggregator) error {
		return dynamo.Aggregate(ctx, a, newFeed("ns").records(n)).Err
	}
	for name, count := range map[string]func(context.Context, *aggregator.Aggregator) error{
		"changes": process, "records": aggregate,
	} {
		store := newLedger()
		a, err := aggregator.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := count(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
			if got, events := store.total(window, "tpm"); got != want || events != n {
				t.Errorf("%s, %s: %d by %d changes, want %d by %d", name, window, got, events, want, n)
			}
		}
		if store.refills == 0 {
			t.Errorf("%s: no bucket is refilled, so that is not measured", name)
		}
	}
}

// TestHeapOfWhatIsKeptShows checks that a store that keeps its input raises
// the peak.
func TestHeapOfWhatIsKeptShows(t *testing.T) {
	const n, size = 2000, 1 << 10
	var kept [][]byte
	got, err := peakHeap(n, func(a *aggregator.Aggregator) error {
		f := newFeed("ns")
		for range n {
			kept = append(kept, make([]byte, size))
			if err := dynamo.Aggregate(t.Context(), a, f.records(1)).Err; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if least := float64(len(kept)-n/heapSamples) * size; got < least {
		t.Errorf("%.0f bytes are in use, want at least the %.0f that are kept", got, least)
	}
}
