package dynamo

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// Tally is what became of a batch of stream records.
type Tally struct {
	Records, Changes   int
	Snapshots, Refills int
	Events, Files      int    // audit events that the archive holds now, and files that were written for them
	Skipped            []Skip // records that could not be used
	Lost               int    // changes whose snapshot is damaged
	// Done is how many records need not come again, from the first on.
	Done int
	Err  error // why the others have to
}

// Skip is a record that could not be used.
type Skip struct {
	Record int // its index
	Reason string
}

// Aggregate has an aggregator count what stream records say about buckets, and
// archive the audit events that they say are gone.
func Aggregate(ctx context.Context, a *aggregator.Aggregator, records []StreamRecord) Tally {
	b := batch{Tally: Tally{Records: len(records), Done: len(records)}, archives: a.Archives()}
	for i := range records {
		b.sort(i, &records[i])
	}
	result := a.Process(ctx, b.changes)
	b.Changes, b.Snapshots, b.Refills, b.Lost = len(b.changes), result.Snapshots, result.Refills, len(result.Lost)
	if result.Failed >= 0 {
		b.Done = b.changed[result.Failed]
	}
	archived := a.Archive(ctx, b.events)
	b.Events, b.Files = archived.Events, archived.Files
	if archived.Failed >= 0 {
		b.Done = min(b.Done, b.removed[archived.Failed])
	}
	b.Err = errors.Join(result.Err, archived.Err)
	return b.Tally
}

// batch is records, by what they are about.
type batch struct {
	Tally
	archives         bool
	changes          []aggregator.Change
	events           []aggregator.Event
	changed, removed []int // the record of each change and event
}

func (b *batch) sort(i int, r *StreamRecord) {
	c, reason, ok := r.Change()
	if ok {
		b.changes, b.changed = append(b.changes, c), append(b.changed, i)
		return
	}
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
