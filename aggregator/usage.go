package aggregator

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// addition knows which changes it is made of.
type addition struct {
	Addition
	indexes []int
}

// snapshot is what additions are gathered for.
type snapshot struct {
	bucket ID
	feed   string
	window limiter.Window
	start  time.Time
}

// additions are what the changes from begin to end add to snapshots, in the
// order in which these are first met. Buckets that have failed before are left
// for the next time.
func (r *run) additions(begin, end int) []addition {
	var all []addition
	where := map[snapshot]int{}
	for i := begin; i < end; i++ {
		c := &r.changes[i]
		if len(c.Used) == 0 {
			continue
		}
		if r.failed[c.Bucket] {
			r.fail(i)
			continue
		}
		for _, window := range r.opts.Windows {
			start, _ := window.Bounds(c.At)
			key := snapshot{c.Bucket, c.Position.Feed, window, start}
			at, met := where[key]
			if !met {
				at = len(all)
				where[key] = at
				all = append(all, addition{Addition: Addition{Bucket: c.Bucket, Window: window, Start: start}})
			}
			all[at].Entries = append(all[at].Entries, Entry{c.Position, c.Used})
			all[at].indexes = append(all[at].indexes, i)
		}
	}
	return all
}
