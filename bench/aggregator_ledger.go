package main

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// ledger is a minimal replacement for a table: it keeps the sums of each
// snapshot and the position up to which they are counted. It only counts
// refills.
type ledger struct {
	mu      sync.Mutex
	sums    map[ledgerKey]*ledgerSum
	refills int
}

type ledgerKey struct {
	bucket aggregator.ID
	window limiter.Window
	start  time.Time
}

type ledgerSum struct {
	counters map[string]int64
	events   int
	mark     aggregator.Position
}

func newLedger() *ledger { return &ledger{sums: map[ledgerKey]*ledgerSum{}} }

func (l *ledger) AddUsage(_ context.Context, a aggregator.Addition) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	key := ledgerKey{a.Bucket, a.Window, a.Start}
	sum := l.sums[key]
	if sum == nil {
		sum = &ledgerSum{counters: map[string]int64{}}
		l.sums[key] = sum
	}

	for _, e := range a.Entries {
		// A batch may come again, so entries up to the mark are counted
		// already.
		if e.Position.Feed == sum.mark.Feed && e.Position.Number <= sum.mark.Number {
			continue
		}
		for limit, n := range e.Used {
			sum.counters[limit] += n
		}
		sum.events++
		sum.mark = e.Position
	}
	return nil
}

func (l *ledger) Refill(context.Context, time.Time, aggregator.ID, *aggregator.State) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refills++
	return true, nil
}

// total returns the usage of a limit in the snapshots of one window, and the
// number of changes.
func (l *ledger) total(window limiter.Window, limit string) (tokens int64, events int) {
	for key, sum := range l.sums {
		if key.window == window {
			tokens += sum.counters[limit]
			events += sum.events
		}
	}
	return tokens, events
}

// plainSums returns the same sums without windows, positions or a store that
// can fail.
func plainSums(changes []aggregator.Change) map[plainKey]int64 {
	sums := map[plainKey]int64{}
	for i := range changes {
		for limit, n := range changes[i].Used {
			sums[plainKey{changes[i].Bucket, limit}] += n
		}
	}
	return sums
}

type plainKey struct {
	bucket aggregator.ID
	limit  string
}
