package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// aggregatorToTable times the whole path from records to a stub of a table
// without delay, compared with as many raw updates from as many callers.
func aggregatorToTable(ctx context.Context, cfg config, r *report) (err error) {
	stub, endpoint, err := startStub(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stub.close()) }()

	if err := prepare(ctx, endpoint); err != nil {
		return err
	}

	g, err := newRig(ctx, endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()

	n := cfg.changes[0]
	var ours, raw, writes series
	for range halfOf(cfg.rounds) {
		took, written, err := timeToTable(ctx, g.repo, n)
		if err != nil {
			return err
		}

		// The raw client makes as many writes as the aggregator needed for the
		// changes.
		bare, err := timeRaw(ctx, g, written)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}

		each := 1 / float64(n)
		ours, raw, writes = append(ours, float64(took)*each), append(raw, float64(bare)*each), append(writes,
			float64(written)*each)
	}

	return r.table([]string{"to a stub of a table", "us/change", "changes/s", "writes/change", "x raw"}, [][]string{
		{"as many raw UpdateItem", raw.micros(), throughput(raw), fmt.Sprintf("%.2f", writes.median()), ""},
		{nameAggregate, ours.micros(), throughput(ours), fmt.Sprintf("%.2f", writes.median()), ours.over(raw).ratio()},
	})
}

// tableCallers is the default number of concurrent writes of an aggregator.
const tableCallers = 16

// timeToTable times an aggregator that writes to a table. It also returns the
// number of writes.
func timeToTable(ctx context.Context, repo *dynamo.Repository, n int) (took time.Duration, writes int, err error) {
	a, err := aggregator.New(repo.UsageStore(0), &aggregator.Options{Parallel: tableCallers})
	if err != nil {
		return 0, 0, err
	}

	clean()
	took, err = timeRecords(repo.NamespaceID(), n, func(records []dynamo.StreamRecord) error {
		tally := dynamo.Aggregate(ctx, a, records)
		writes += tally.Snapshots + tally.Refills
		if tally.Changes != len(records) {
			return fmt.Errorf("%d of %d records are changes", tally.Changes, len(records))
		}
		return tally.Err
	})

	return took, writes, err
}

func timeRaw(ctx context.Context, g *rig, n int) (time.Duration, error) {
	update := rawUpdate(g.raw, g.input)
	clean()
	begin := time.Now()
	err := timeEach(ctx, tableCallers, make(series, n), update)
	return time.Since(begin), err
}
