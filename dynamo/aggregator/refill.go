package aggregator

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// demand is the last state of a bucket and its recent usage, which is the best
// estimate of the next requests.
type demand struct {
	bucket ID
	state  *State
	used   map[string]int64
}

// demands returns the buckets of the changes from begin to end that need a refill.
func (r *run) demands(begin, end int) []demand {
	var order []ID
	byBucket := map[ID]*demand{}
	for i := begin; i < end; i++ {
		c := &r.changes[i]
		d := byBucket[c.Bucket]
		if d == nil {
			d = &demand{bucket: c.Bucket, used: map[string]int64{}}
			byBucket[c.Bucket] = d
			order = append(order, c.Bucket)
		}

		// The changes of a bucket come in order, so the last state is the
		// newest.
		d.state = c.State
		for limit, n := range c.Used {
			d.used[limit] = bucket.Add(d.used[limit], n)
		}
	}

	var all []demand
	now := r.opts.Now()
	for _, id := range order {
		if d := byBucket[id]; d.needsRefill(now) {
			all = append(all, *d)
		}
	}
	return all
}

// needsRefill reports whether a limit holds less than its recent usage and would
// gain from a refill: the next charge from a cached image would need a retry. A
// quota at a boundary always needs its step, since clients that do not know quotas
// would charge the old window.
func (d *demand) needsRefill(now time.Time) bool {
	if d.state == nil {
		return false
	}

	if at := d.state.StepAt; !at.IsZero() && !now.Before(at) {
		return true
	}

	at, to := d.state.RefilledAt.UnixMilli(), now.UnixMilli()
	// A clock that is behind the last refill adds nothing.
	if to <= at {
		return false
	}
	for i, l := range d.state.Limits {
		// A quota gains nothing between boundaries.
		if l.IsQuota() {
			continue
		}

		held := d.state.Tokens[i]

		if held < bucket.Thousandths(d.used[l.Name]) && bucket.Advance(
			held, at, to, bucket.RateOf(l.Capacity, l.Refill, l.Period),
		) > held {
			return true
		}
	}
	return false
}

// refill refills one bucket. A failure costs only a retry of the next charge, so it
// is reported and not repeated.
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
