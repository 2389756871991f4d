package dynamo

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// image is a bucket as the table had it at some moment. It is immutable.
type image struct {
	cells   []cell // by name
	damaged []cell // limits with tokens, but without parameters: as good as absent
	refill  int64  // up to when tokens were refilled
	shape   int64  // how often limits joined, left or changed
	ttl     int64  // in seconds, 0 if it stays
	cascade bool   // copies of the entity's facts, which Python relies on
	parent  string
}

// cell is one limit of a bucket.
type cell struct {
	name   string
	rate   bucket.Rate
	tokens int64
}

// decodeImage is the bucket in an item. It is nil if there is none, or only the
// remains of one: Python's adjustments leave such behind when they meet no
// item.
func decodeImage(it item) (*image, error) {
	if _, ok := it[attrRefill]; !ok {
		return nil, nil
	}
	img := &image{cascade: it.truth(attrCascade), parent: it.text(attrParent), cells: make([]cell, 0, 4)}
	var err error
	if img.refill, err = it.number(attrRefill); err != nil {
		return nil, remedied(err)
	}
	if img.ttl, err = it.number(attrTTL); err != nil {
		return nil, remedied(err)
	}
	if img.shape, err = it.number(attrShape); err != nil {
		return nil, remedied(err)
	}
	for attr := range it {
		name, ok := limitOf(attr, bucketPrefix, fieldTokens)
		if !ok {
			continue
		}
		c, err := decodeCell(it, name)
		if err != nil {
			return nil, remedied(err)
		}
		if c.rate.Capacity > 0 && c.rate.Amount > 0 && c.rate.Period > 0 {
			img.cells = append(img.cells, c)
		} else {
			img.damaged = append(img.damaged, c)
		}
	}
	slices.SortFunc(img.cells, func(a, b cell) int { return strings.Compare(a.name, b.name) })
	return img, nil
}

func decodeCell(it item, name string) (c cell, err error) {
	c.name = name
	for _, part := range []struct {
		field string
		to    *int64
	}{
		{fieldTokens, &c.tokens},
		{fieldCapacity, &c.rate.Capacity},
		{fieldAmount, &c.rate.Amount},
		{fieldPeriod, &c.rate.Period},
		{fieldTotal, new(int64)}, // which nobody reads, but a charge adds to it, and cannot if it is no number
	} {
		if *part.to, err = it.number(bucketAttr(name, part.field)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// remedied adds what to do about a bucket that cannot be read.
func remedied(err error) error {
	if bad, ok := errors.AsType[*limiter.CorruptError](err); ok {
		bad.Reason += "; correct the attribute, or delete the item: the bucket then starts full"
	}
	return err
}

// limit is the cell's parameters in whole tokens.
func (c cell) limit() limiter.Limit {
	return limiter.Custom(c.name, c.rate.Capacity/bucket.Milli, c.rate.Amount/bucket.Milli, time.Duration(c.rate.Period)*time.Millisecond)
}

func rateOf(l limiter.Limit) bucket.Rate {
	return bucket.Rate{Capacity: l.Capacity * bucket.Milli, Amount: l.Refill * bucket.Milli, Period: l.Period.Milliseconds()}
}

// find is the cell of a limit, nil if there is none.
func (img *image) find(limit string) *cell {
	for i := range img.cells {
		if img.cells[i].name == limit {
			return &img.cells[i]
		}
	}
	return nil
}

// has tells whether the bucket has exactly these limits, which are by name.
func (img *image) has(limits []limiter.Limit) bool {
	if len(img.damaged) > 0 || len(img.cells) != len(limits) {
		return false
	}
	for i, c := range img.cells {
		if c.name != limits[i].Name || c.rate != rateOf(limits[i]) {
			return false
		}
	}
	return true
}

// limits are those the bucket has, by name.
func (img *image) limits() []limiter.Limit {
	limits := make([]limiter.Limit, len(img.cells))
	for i, c := range img.cells {
		limits[i] = c.limit()
	}
	return limits
}

// bucket is the image as a bucket refilled up to base, which is not before its
// own refill time.
func (img *image) bucket(account *limiter.Account, base int64, idle int64) rules.Bucket {
	b := rules.Bucket{Account: account, At: base, Idle: idle}
	if idle > 0 {
		b.Expires = bucket.Add(base, idle)
	}
	room := make([]int64, 2*len(img.cells))
	b.Tokens, b.Used = room[:len(img.cells):len(img.cells)], room[len(img.cells):]
	for i, c := range img.cells {
		b.Tokens[i] = min(c.tokens, c.rate.Capacity) // Python leaves more than that when it cuts a capacity, or gives back
	}
	return b
}

// idle is how long the bucket stays untouched, 0 for ever, as whoever wrote it
// last, at a time, meant it. Limits that an override brought do not count, so
// it may be less than the limits say; a debt may have made it more.
func (img *image) idle(at int64, multiplier int) int64 {
	if img.ttl == 0 {
		return 0
	}
	most := rules.Idle(img.limits(), limiter.Scope{}, multiplier)
	if left := img.ttl - ceilDiv(at, bucket.Milli); left > 0 {
		return min(most, left*bucket.Milli)
	}
	return most
}

// gone tells whether the bucket counts as absent at now, although the table has
// not removed it yet: its time is over, and it is full.
func (img *image) gone(base, now int64) bool {
	if img.ttl == 0 || img.ttl*bucket.Milli > now {
		return false
	}
	for _, c := range img.cells {
		if bucket.Advance(c.tokens, base, now, c.rate) < c.rate.Capacity {
			return false
		}
	}
	return true
}

// shortest is the shortest time in which one of the limits fills.
func (img *image) shortest() int64 {
	shortest := bucket.FillTime(img.cells[0].rate)
	for _, c := range img.cells[1:] {
		shortest = min(shortest, bucket.FillTime(c.rate))
	}
	return shortest
}
