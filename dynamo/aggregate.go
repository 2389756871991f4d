package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/aggregator"
)

// Tally is what became of a batch of stream records.
type Tally struct {
	Records, Changes   int
	Snapshots, Refills int
	Skipped            map[string]int // records that could not be used, by reason
	Lost               int            // changes whose snapshot is damaged
	// Done is how many records need not come again, from the first on.
	Done int
	Err  error // why the others have to
}

// Aggregate has an aggregator count what stream records say about buckets.
func Aggregate(ctx context.Context, a *aggregator.Aggregator, records []StreamRecord) Tally {
	t := Tally{Records: len(records), Done: len(records), Skipped: map[string]int{}}
	var changes []aggregator.Change
	var where []int // record of each change
	for i, r := range records {
		c, reason, ok := r.Change()
		switch {
		case ok:
			changes, where = append(changes, c), append(where, i)
		case reason != "":
			t.Skipped[reason]++
		}
	}
	result := a.Process(ctx, changes)
	t.Changes, t.Snapshots, t.Refills, t.Lost, t.Err = len(changes), result.Snapshots, result.Refills, len(result.Lost), result.Err
	if result.Failed >= 0 {
		t.Done = where[result.Failed]
	}
	return t
}
