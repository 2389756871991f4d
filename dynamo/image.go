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
	stored []storedLimit // by name
	// Limits that have left and are not forgotten yet, by name.
	left []storedLimit
	// Limits with tokens but without parameters, treated as absent.
	damaged []storedLimit
	// What is left of limits without tokens, for a repair to remove.
	loose  []storedLimit
	refill int64 // up to when tokens were refilled
	shape  int64 // how often limits joined, left or changed
	// Identifies the bucket; "" if another program created it and none has
	// locked it since.
	life string
	ttl  int64 // in seconds, 0 if the bucket does not expire
	// The bucket does not expire before this time, in milliseconds.
	keep int64
	// Copied from the entity's record, as is parent, because Python relies on
	// it.
	cascade bool
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
	img := &image{
		cascade: it.truth(attrCascade), parent: it.text(attrParent), off: it[attrOff], life: it.text(attrLife),
		stored: make([]storedLimit, 0, 4),
	}

	for _, part := range []struct {
		attr string
		to   *int64
	}{{attrRefill, &img.refill}, {attrTTL, &img.ttl}, {attrKeep, &img.keep}, {attrShape, &img.shape}} {
		var err error
		if *part.to, err = it.number(part.attr); err != nil {
			return nil, withRemedy(err)
		}
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

		c, err := decodeStored(it, name)
		if err != nil {
			return nil, withRemedy(err)
		}

		// Without parameters, a limit cannot be judged.
		if c.rate.Capacity > 0 && c.rate.Amount > 0 && c.rate.Period > 0 {
			img.stored = append(img.stored, c)
		} else {
			img.damaged = append(img.damaged, c)
		}
	}

	slices.SortFunc(img.stored, compareStored)

	// Most buckets have neither quotas nor shadow limits, and need no second
	// look.
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

// find returns the stored limit of a name, or nil.
func (img *image) find(limit string) *storedLimit {
	for i := range img.stored {
		if img.stored[i].name == limit {
			return &img.stored[i]
		}
	}
	return nil
}

// findAny returns the stored limit of a name, also of one that has left, or nil.
func (img *image) findAny(limit string) *storedLimit {
	for c := range img.all() {
		if c.name == limit {
			return c
		}
	}
	return nil
}

// hasExactly reports whether the bucket has these limits, sorted by name, and no
// others, except limits that have left.
func (img *image) hasExactly(limits []limiter.Limit) bool {
	if len(img.damaged) > 0 || len(img.loose) > 0 || len(img.stored) != len(limits) {
		return false
	}
	for i := range img.stored {
		if !img.stored[i].is(limits[i]) {
			return false
		}
	}
	return true
}

// limits returns the bucket's limits, sorted by name.
func (img *image) limits() []limiter.Limit {
	limits := make([]limiter.Limit, len(img.stored))
	for i := range img.stored {
		limits[i] = img.stored[i].limit()
	}
	return limits
}

// bucket returns the image as a bucket whose rates are refilled up to base, which
// must not be before its own refill time.
func (img *image) bucket(account *limiter.Account, base int64, idle int64) rules.Bucket {
	b := rules.Bucket{Account: account, At: base, Idle: idle, Keep: img.keep}
	if idle > 0 {
		b.Expires = bucket.Add(base, idle)
	}

	for i := range img.left {
		b.Left = append(b.Left, img.left[i].level(base))
	}

	// One allocation holds both lists.
	room := make([]int64, 2*len(img.stored))
	b.Tokens, b.Used = room[:len(img.stored):len(img.stored)], room[len(img.stored):]

	for i := range img.stored {
		c := &img.stored[i]
		b.Tokens[i] = c.balance()

		// Most buckets have no quotas, and need no lists for them.
		if c.every != 0 {
			if b.Starts == nil {
				b.Starts = make([]int64, len(img.stored))
			}
			b.Starts[i] = c.start
			if c.peak != 0 {
				if b.Peaks == nil {
					b.Peaks = make([]int64, len(img.stored))
				}
				b.Peaks[i] = c.peak
			}
			if c.hidden != 0 {
				if b.Hidden == nil {
					b.Hidden = make([]int64, len(img.stored))
				}
				b.Hidden[i] = c.hidden
			}
		}
	}

	return b
}

// idle returns how long the bucket is kept without a write; 0 means forever. It
// derives this from the ttl, and from the time at which the ttl was written. The
// result may be less than the limits imply, because limits of an override do not
// count, and more because of a debt.
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

// full reports whether every limit is full at now, also those that have left.
// The rates are refilled up to base. A quota whose window begins later is not
// full: a new bucket would be in the window before.
func (img *image) full(base, now int64) bool {
	for c := range img.all() {
		if !c.full(base, now, now) {
			return false
		}
	}
	return true
}

// outgrown reports whether the next write has to drop a limit that has left: it
// is full, and keep has passed, so that limits which it may have replaced would
// be full too.
func (img *image) outgrown(base, at, now int64) bool {
	return img.keep <= now && slices.ContainsFunc(img.left, func(c storedLimit) bool { return c.full(base, at, now) })
}

// shortestFill returns the shortest fill time of the rates, 0 if all limits are
// quotas.
func (img *image) shortestFill() (shortest int64) {
	for i := range img.stored {
		if c := &img.stored[i]; c.every == 0 {
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
	for c := range img.all() {
		if c.rate.Window != nil && c.rate.Window.Start(end) == end {
			return true
		}
	}
	return false
}

// mayFillEarly reports whether a give-back may fill the bucket before its ttl: it has a
// quota, or a limit that has left.
func (img *image) mayFillEarly() bool {
	return len(img.left) > 0 || slices.ContainsFunc(img.stored, func(c storedLimit) bool { return c.every != 0 })
}

// due reports whether a boundary of a quota has passed, so that the next write has to
// step it.
func (img *image) due(now int64) bool {
	for c := range img.all() {
		if c.due(now) {
			return true
		}
	}
	return false
}

// expiry returns the ttl of a bucket, in seconds: when it has idled and is full,
// so that no debt is forgiven, and not before it may.
func expiry(b *rules.Bucket) int64 {
	const latest = 1 << 53 / bucket.Milli
	return min(ceilSeconds(max(b.Expires, b.Full(), b.Keep)), latest)
}

// ceilSeconds returns milliseconds in seconds, rounded up if they are positive.
func ceilSeconds(ms int64) int64 {
	seconds := ms / bucket.Milli
	if ms%bucket.Milli > 0 {
		seconds++
	}
	return seconds
}
