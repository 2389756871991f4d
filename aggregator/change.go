// Package aggregator turns the changes of buckets into usage: how many tokens of
// each limit an entity used of a resource, by the hour, day and month. It also
// refills buckets ahead of need. It knows neither where changes come from nor
// where usage is kept.
package aggregator

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Position is where a change stands in its feed. Numbers of one feed are equally
// long, and rise as text from one change of a bucket to the next; those of two
// feeds cannot be compared.
type Position struct {
	Feed, Number string
}

// ID is a bucket of a namespace, which is given by its ID.
type ID struct {
	Namespace, Entity, Resource string
}

// Change is one write to a bucket.
type Change struct {
	Position Position
	At       time.Time        // when it was written
	Bucket   ID               // what was written to
	Used     map[string]int64 // whole tokens by limit, less what was given back; none is 0
	State    *State           // as the write left the bucket; nil if it need not be refilled
}

// State is a bucket at some moment.
type State struct {
	RefilledAt time.Time       // up to when its tokens were refilled
	Limits     []limiter.Limit // those it has
	Tokens     []int64         // thousandths, in the order of Limits; negative is debt
	Ref        any             // the store's own handle
}

// Entry is what one change adds to a snapshot.
type Entry struct {
	Position Position
	Used     map[string]int64
}

// Addition is what changes of one bucket add to one snapshot of its usage.
type Addition struct {
	Bucket  ID
	Window  limiter.Window
	Start   time.Time
	Entries []Entry // in the order of the feed; all of one feed
}
