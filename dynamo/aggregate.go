package dynamo

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// Tally is the result of Aggregate for a batch of stream records.
type Tally struct {
	Records, Changes   int
	Snapshots, Refills int
	// Events and Files count the archived audit events, and the files written for
	// them.
	Events, Files int
	Skipped       []Skip // unusable records
	Lost          int    // changes whose snapshot is damaged
	// Done is the number of records, from the first on, that need no retry.
	Done int
	Err  error // why the other records need a retry
}

// Skip describes a record that Aggregate could not use.
type Skip struct {
	Record int // the index of the record
	Reason string
}

// Aggregate passes stream records to an aggregator, which counts the changes of
// buckets and archives the removed audit events.
func Aggregate(ctx context.Context, a *aggregator.Aggregator, records []StreamRecord) Tally {
	b := batch{Tally: Tally{Records: len(records), Done: len(records)}, archives: a.Archives()}

	for i := range records {
		b.add(i, &records[i])
	}

	result := a.Process(ctx, b.changes)
	b.Changes, b.Snapshots, b.Refills, b.Lost = len(b.changes), result.Snapshots, result.Refills, len(result.Lost)

	// The stream passes on everything from the first failure again, also what
	// was handled after it.
	if result.Failed >= 0 {
		b.Done = b.changed[result.Failed]
	}

	archived := a.Archive(ctx, b.events)
	b.Events, b.Files = archived.Events, archived.Files

	// Changes and events come from the same records, so the earlier failure
	// counts.
	if archived.Failed >= 0 {
		b.Done = min(b.Done, b.removed[archived.Failed])
	}

	b.Err = errors.Join(result.Err, archived.Err)
	return b.Tally
}

// batch holds what stream records contain, by kind.
type batch struct {
	Tally
	archives         bool
	changes          []aggregator.Change
	events           []aggregator.Event
	changed, removed []int // the index of the record of each change and event
}

// add adds the content of record i to the batch.
func (b *batch) add(i int, r *StreamRecord) {
	c, reason, ok := r.Change()
	if ok {
		b.changes, b.changed = append(b.changes, c), append(b.changed, i)
		return
	}

	// Without an archive, the removal of an event needs no decoding.
	if reason == "" && b.archives {
		var e aggregator.Event
		if e, reason, ok = r.Removed(); ok {
			b.events, b.removed = append(b.events, e), append(b.removed, i)
			return
		}
	}

	if reason != "" {
		b.Skipped = append(b.Skipped, Skip{i, reason})
	}
}
