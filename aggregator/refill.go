package aggregator

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// demand is a bucket as the last change left it, and what was used of it lately:
// the best guess at what will be asked for next.
type demand struct {
	bucket ID
	state  *State
	used   map[string]int64
}

// pressed are the buckets of the changes from begin to end that are worth a
// refill.
func (r *run) pressed(begin, end int) []demand {
	var order []ID
	met := map[ID]*demand{}
	for i := begin; i < end; i++ {
		c := &r.changes[i]
		d := met[c.Bucket]
		if d == nil {
			d = &demand{bucket: c.Bucket, used: map[string]int64{}}
			met[c.Bucket] = d
			order = append(order, c.Bucket)
		}
		d.state = c.State
		for limit, n := range c.Used {
			d.used[limit] = bucket.Add(d.used[limit], n)
		}
	}
	var all []demand
	now := r.opts.Now()
	for _, id := range order {
		if d := met[id]; d.pressed(now) {
			all = append(all, *d)
		}
	}
	return all
}

// pressed tells whether some limit holds less than was used of it lately, and
// would hold more if it were refilled: its next charge from an old image would
// have to be made twice.
func (d *demand) pressed(now time.Time) bool {
	if d.state == nil || len(d.used) == 0 {
		return false
	}
	at, to := d.state.RefilledAt.UnixMilli(), now.UnixMilli()
	if to <= at {
		return false
	}
	for i, l := range d.state.Limits {
		held := d.state.Tokens[i]
		if held < bucket.Thousandths(d.used[l.Name]) && bucket.Advance(held, at, to, bucket.RateOf(l.Capacity, l.Refill, l.Period)) > held {
			return true
		}
	}
	return false
}

// refill brings one bucket up to now. A failure costs only a second try of the
// next charge, so it is told, and that is all.
func (r *run) refill(d demand) {
	if r.ctx.Err() != nil {
		return
	}
	done, err := r.store.Refill(r.ctx, r.opts.Now(), d.bucket, d.state)
	r.mu.Lock()
	defer r.mu.Unlock()
	if done {
		r.result.Refills++
	}
	r.result.Err = errors.Join(r.result.Err, err)
}
