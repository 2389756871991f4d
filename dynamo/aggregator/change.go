package aggregator

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Position is the position of a change in its feed. The numbers of a feed have the
// same length, and increase as text with every change of a bucket. Numbers of
// different feeds are not comparable.
type Position struct {
	Feed, Number string
}

// ID identifies a bucket. Namespace is the ID of the namespace.
type ID struct {
	Namespace, Entity, Resource string
}

// Change is one write to a bucket.
type Change struct {
	Position Position
	At       time.Time        // when it was written
	Bucket   ID               // the bucket
	Used     map[string]int64 // whole tokens by limit, less give-backs; no value is 0
	// WouldRefuse counts by limit how often a shadow limit would have refused; no
	// value is 0.
	WouldRefuse map[string]int64
	State       *State // of the bucket after the write; nil if it needs no refill
}

// State is the content of a bucket.
type State struct {
	RefilledAt time.Time       // time of the last refill
	Limits     []limiter.Limit // limits of the bucket
	Tokens     []int64         // thousandths, in the order of Limits; negative is debt
	StepAt     time.Time       // the first boundary at which a quota gains; zero without quotas
	Ref        any             // the store's own handle
}

// Entry is the part of an [Addition] that comes from one change.
type Entry struct {
	Position    Position
	Used        map[string]int64
	WouldRefuse map[string]int64
}

// Addition is usage to add to one snapshot of a bucket.
type Addition struct {
	Bucket  ID
	Window  limiter.Window
	Start   time.Time
	Entries []Entry // of one feed, in its order
}

// addition is an Addition with the indexes of its changes.
type addition struct {
	Addition
	indexes []int
}

// snapshot is the key of an addition.
type snapshot struct {
	bucket ID
	feed   string
	window limiter.Window
	start  time.Time
}

// additions groups the changes from begin to end by snapshot, in the order of
// their first change. It skips buckets that have failed, and records their
// changes as failed.
func (r *run) additions(begin, end int) []addition {
	var all []addition
	where := map[snapshot]int{}
	for i := begin; i < end; i++ {
		c := &r.changes[i]
		// Refills and changes of limits use nothing.
		if len(c.Used) == 0 && len(c.WouldRefuse) == 0 {
			continue
		}

		if r.failed[c.Bucket] {
			r.fail(i)
			continue
		}

		for _, window := range r.opts.Windows {
			start, _ := window.Bounds(c.At)
			key := snapshot{c.Bucket, c.Position.Feed, window, start}
			at, found := where[key]
			if !found {
				at = len(all)
				where[key] = at
				all = append(all, addition{Addition: Addition{Bucket: c.Bucket, Window: window, Start: start}})
			}

			all[at].Entries = append(all[at].Entries, Entry{c.Position, c.Used, c.WouldRefuse})
			all[at].indexes = append(all[at].indexes, i)
		}
	}
	return all
}
