package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// functionBatch is the number of records in a call of a Lambda function.
const functionBatch = 100

// Names of the contenders in tables.
const (
	namePlainSums = "plain sums in a map"
	nameProcess   = "Process, 100 at a time"
	nameAtOnce    = "Process, all at once"
	nameDecode    = "decoding the images"
	nameAggregate = "Aggregate, 100 at a time"
)

// aggregatorSection measures how fast changes become usage, compared with a
// plain loop, and how much memory that takes.
func aggregatorSection(ctx context.Context, cfg config, r *report) error {
	n := slices.Max(cfg.changes)
	r.line("  %d changes of %d buckets with 2 limits, 3 windows, %d rounds", n, feedBuckets, cfg.rounds)

	times, err := aggregatorTimes(ctx, cfg, n)
	if err != nil {
		return err
	}

	var rows [][]string
	for _, name := range []string{namePlainSums, nameProcess, nameAtOnce, nameDecode, nameAggregate} {
		rows = append(rows, []string{
			name, times[name].nanos(), throughput(times[name]),
			besideOther(times, name, namePlainSums), besideOther(times, name, nameDecode),
		})
	}

	if err := r.table([]string{"what", "ns/change", "changes/s", "x plain sums", "x decoding"}, rows); err != nil {
		return err
	}

	return aggregatorMemory(ctx, cfg, r)
}

func besideOther(times map[string]series, name, other string) string {
	// A contender beside itself would always be 1.
	if name == other {
		return ""
	}
	return times[name].over(times[other]).ratio()
}

// aggregatorTimes returns the nanoseconds for a change in each round.
func aggregatorTimes(ctx context.Context, cfg config, n int) (map[string]series, error) {
	changes, err := newFeed("ns").changes(n)
	if err != nil {
		return nil, err
	}

	contenders := []struct {
		name string
		run  func() (time.Duration, error)
	}{
		{namePlainSums, func() (time.Duration, error) { return timeSums(changes) }},
		{nameProcess, func() (time.Duration, error) { return timeProcess(ctx, changes, functionBatch) }},
		{nameAtOnce, func() (time.Duration, error) { return timeProcess(ctx, changes, n) }},
		{nameDecode, func() (time.Duration, error) { return timeRecords("ns", n, decodeAll) }},
		{nameAggregate, func() (time.Duration, error) { return timeAggregate(ctx, n) }},
	}

	times := map[string]series{}
	for range cfg.rounds {
		for _, c := range contenders {
			// A contender must not pay for the garbage of the one before it.
			clean()
			took, err := c.run()
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			times[c.name] = append(times[c.name], float64(took.Nanoseconds())/float64(n))
		}
	}

	return times, nil
}

func timeSums(changes []aggregator.Change) (time.Duration, error) {
	begin := time.Now()
	if len(plainSums(changes)) == 0 {
		return 0, errors.New("there are no sums")
	}
	return time.Since(begin), nil
}

// timeProcess gives changes to an aggregator in batches, and checks that it
// counted them all.
func timeProcess(ctx context.Context, changes []aggregator.Change, batch int) (time.Duration, error) {
	store := newLedger()
	a, err := aggregator.New(store, nil)
	if err != nil {
		return 0, err
	}

	begin := time.Now()
	for some := range slices.Chunk(changes, batch) {
		if result := a.Process(ctx, some); result.Failed >= 0 {
			return 0, result.Err
		}
	}

	// Checking the counts is no part of the work that is timed.
	took := time.Since(begin)
	return took, checkCounted(store, len(changes))
}

// checkCounted checks that every change was counted.
func checkCounted(store *ledger, changes int) error {
	for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		if _, events := store.total(window, "tpm"); events != changes {
			return fmt.Errorf("%d of %d changes are counted %s", events, changes, window)
		}
	}
	return nil
}

// timeRecords times the handling of n records in batches, without the time to
// make them.
func timeRecords(ns string, n int, handle func([]dynamo.StreamRecord) error) (took time.Duration, err error) {
	f := newFeed(ns)

	for n > 0 {
		records := f.records(min(n, functionBatch))
		begin := time.Now()
		if err := handle(records); err != nil {
			return 0, err
		}
		took += time.Since(begin)
		n -= len(records)
	}
	return took, nil
}

func decodeAll(records []dynamo.StreamRecord) error {
	for _, r := range records {
		if _, reason, ok := r.Change(); !ok {
			return errors.New(reason)
		}
	}
	return nil
}

func timeAggregate(ctx context.Context, n int) (time.Duration, error) {
	store := newLedger()
	a, err := aggregator.New(store, nil)
	if err != nil {
		return 0, err
	}

	took, err := timeRecords("ns", n, func(records []dynamo.StreamRecord) error {
		tally := dynamo.Aggregate(ctx, a, records)
		if tally.Done < len(records) {
			return tally.Err
		}
		return nil
	})

	return took, errors.Join(err, checkCounted(store, n))
}

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
