package dynamo

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// image is a bucket as the table had it at some moment. It is immutable.
type image struct {
	cells   []cell // by name
	damaged []cell // limits with tokens but without parameters, treated as absent
	loose   []cell // what is left of limits without tokens, for a repair to remove
	refill  int64  // up to when tokens were refilled
	shape   int64  // how often limits joined, left or changed
	ttl     int64  // in seconds, 0 if the bucket does not expire
	cascade bool   // copied from the entity's record, as is parent: Python relies on it
	parent  string
	off     types.AttributeValue // the copy of a switch; nil for none
}

// decodeImage decodes the bucket in an item. It returns nil if there is none, or
// if the refill time is missing: Python's adjustments create such items where no
// bucket is.
func decodeImage(it item) (*image, error) {
	if _, ok := it[attrRefill]; !ok {
		return nil, nil
	}
	img := &image{cascade: it.truth(attrCascade), parent: it.text(attrParent), off: it[attrOff], cells: make([]cell, 0, 4)}
	var err error
	if img.refill, err = it.number(attrRefill); err != nil {
		return nil, withRemedy(err)
	}
	if img.ttl, err = it.number(attrTTL); err != nil {
		return nil, withRemedy(err)
	}
	if img.shape, err = it.number(attrShape); err != nil {
		return nil, withRemedy(err)
	}
	var extras []string
	for attr := range it {
		name, field := bucketField(attr)
		if field != fieldTokens {
			if extraOf(field) != 0 {
				extras = append(extras, attr)
			}
			continue
		}
		c, err := decodeCell(it, name)
		if err != nil {
			return nil, withRemedy(err)
		}
		if c.rate.Capacity > 0 && c.rate.Amount > 0 && c.rate.Period > 0 {
			img.cells = append(img.cells, c)
		} else {
			img.damaged = append(img.damaged, c)
		}
	}
	slices.SortFunc(img.cells, compareCells)
	if extras != nil {
		if err := img.decodeExtras(it, extras); err != nil {
			return nil, withRemedy(err)
		}
	}
	return img, nil
}

// withRemedy adds to a CorruptError how to correct the bucket.
func withRemedy(err error) error {
	if bad, ok := errors.AsType[*limiter.CorruptError](err); ok {
		bad.Reason += "; correct the attribute, or delete the item: the bucket then starts full"
	}
	return err
}

// find returns the cell of a limit, or nil.
func (img *image) find(limit string) *cell {
	for i := range img.cells {
		if img.cells[i].name == limit {
			return &img.cells[i]
		}
	}
	return nil
}

// hasExactly reports whether the bucket has these limits, sorted by name, and no
// others.
func (img *image) hasExactly(limits []limiter.Limit) bool {
	if len(img.damaged) > 0 || len(img.loose) > 0 || len(img.cells) != len(limits) {
		return false
	}
	for i := range img.cells {
		if !img.cells[i].is(limits[i]) {
			return false
		}
	}
	return true
}

// limits returns the bucket's limits, sorted by name.
func (img *image) limits() []limiter.Limit {
	limits := make([]limiter.Limit, len(img.cells))
	for i := range img.cells {
		limits[i] = img.cells[i].limit()
	}
	return limits
}

// bucket returns the image as a bucket whose rates are refilled up to base, which
// must not be before its own refill time.
func (img *image) bucket(account *limiter.Account, base int64, idle int64) rules.Bucket {
	b := rules.Bucket{Account: account, At: base, Idle: idle}
	if idle > 0 {
		b.Expires = bucket.Add(base, idle)
	}
	room := make([]int64, 2*len(img.cells))
	b.Tokens, b.Used = room[:len(img.cells):len(img.cells)], room[len(img.cells):]
	for i := range img.cells {
		c := &img.cells[i]
		b.Tokens[i] = min(c.tokens, c.rate.Capacity) // Python leaves more after it lowers a capacity or gives back
		if c.every != 0 {
			if b.Starts == nil {
				b.Starts = make([]int64, len(img.cells))
			}
			b.Starts[i] = c.start
			if c.excess != 0 {
				if b.Excess == nil {
					b.Excess = make([]int64, len(img.cells))
				}
				b.Excess[i] = c.excess
			}
		}
	}
	return b
}

// idle returns how long the bucket is kept without a write; 0 means forever, by the ttl that was
// last written, at a time. It may be less than the limits imply, because limits
// of an override do not count, and more because of a debt.
func (img *image) idle(at int64, multiplier int) int64 {
	if img.ttl == 0 {
		return 0
	}
	longest := rules.Idle(img.limits(), limiter.Scope{}, multiplier)
	if left := img.ttl - ceilSeconds(at); left > 0 {
		return min(longest, left*bucket.Milli)
	}
	return longest
}

// full reports whether every limit is full at now. The rates are refilled up to base.
// A quota whose window begins later is not, nor one with an excess in its window: a new
// bucket would be in the window before, and have no excess.
func (img *image) full(base, now int64) bool {
	for i := range img.cells {
		if c := &img.cells[i]; c.begins(now) || c.excess != 0 && !c.due(now) || c.tokensAt(base, now, now) < c.rate.Capacity {
			return false
		}
	}
	return true
}

// shortestFill returns the shortest fill time of the rates, 0 if all limits are
// quotas.
func (img *image) shortestFill() (shortest int64) {
	for i := range img.cells {
		if c := &img.cells[i]; c.every == 0 {
			if fill := bucket.FillTime(c.rate); shortest == 0 || fill < shortest {
				shortest = fill
			}
		}
	}
	return shortest
}

// endsAtBoundary reports whether the ttl is a boundary of a quota.
func (img *image) endsAtBoundary() bool {
	end := img.ttl * bucket.Milli
	return slices.ContainsFunc(img.cells, func(c cell) bool { return c.rate.Window != nil && c.rate.Window.Start(end) == end })
}

// hasQuota reports whether a limit is a quota.
func (img *image) hasQuota() bool {
	return slices.ContainsFunc(img.cells, func(c cell) bool { return c.every != 0 })
}

// due reports whether a boundary of a quota has passed, so that the next write has to
// step it.
func (img *image) due(now int64) bool {
	for i := range img.cells {
		if img.cells[i].due(now) {
			return true
		}
	}
	return false
}

// expiry returns the ttl of a bucket, in seconds: when it has idled and is full,
// so that no debt is forgiven.
func expiry(b *rules.Bucket) int64 {
	const latest = 1 << 53 / bucket.Milli
	return min(ceilSeconds(max(b.Expires, b.Full())), latest)
}

// ceilSeconds returns milliseconds in seconds, rounded up if they are positive.
func ceilSeconds(ms int64) int64 {
	seconds := ms / bucket.Milli
	if ms%bucket.Milli > 0 {
		seconds++
	}
	return seconds
}
