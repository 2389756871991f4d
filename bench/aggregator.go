package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
