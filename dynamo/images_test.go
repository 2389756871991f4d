package dynamo

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

const aMinute = 60 * 1000

// refilledAt returns an image of a bucket that was refilled up to a time.
func refilledAt(refill int64) *image { return &image{refill: refill} }

// The remembered time counts for callers whose clocks are a little behind, but not
// if it was a mistake.
func TestRememberedTimeIsCorrected(t *testing.T) {
	t.Parallel()
	machine := time.UnixMilli(100 * aMinute)
	for name, c := range map[string]struct {
		now, remembered int64
		correction      int64
		counts          bool
	}{
		"callers side by side":           {100 * aMinute, 100*aMinute + 900, 0, true},
		"the machine's clock was ahead":  {100 * aMinute, 101*aMinute + 500, 0, false},
		"a caller's clock is behind":     {50 * aMinute, 51*aMinute + 500, 0, true},
		"a caller's clock was far ahead": {50 * aMinute, 60 * aMinute, 0, false},
		"the past":                       {50 * aMinute, 40 * aMinute, 0, true},
		"before the correction began":    {99 * aMinute, 100 * aMinute, -aMinute, false},
		"since the correction began":     {99 * aMinute, 99*aMinute + 900, -aMinute, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, k := newImages(10), key{pk: "alice"}
			m.observeWrite(k, refilledAt(aMinute), &cachedBucket{}, &rules.Bucket{At: c.remembered}, false)
			if got := m.get(k, moment{machine, c.now, c.correction}).lastWrite; (got == c.remembered) != c.counts {
				t.Errorf("%d is remembered of %d, want it to count: %v", got, c.remembered, c.counts)
			}
		})
	}
}

// An image far behind the refill time seen before its request began shows another
// bucket. An overtaken image changes nothing.
func TestAnotherBucketDiffersFromAnOldResponse(t *testing.T) {
	t.Parallel()
	const seen = 200 * aMinute
	for name, c := range map[string]struct {
		refill, before   int64
		image, seen, now int64
	}{
		"another bucket":     {100 * aMinute, seen, 100 * aMinute, 100 * aMinute, 0},
		"a clock is behind":  {190 * aMinute, seen, 190 * aMinute, seen, seen},
		"overtaken":          {190 * aMinute, 190 * aMinute, seen, seen, seen},
		"overtaken by hours": {100 * aMinute, 0, seen, seen, seen},
		"a later one":        {210 * aMinute, 0, 210 * aMinute, 210 * aMinute, seen},
	} {
		t.Run(name, func(t *testing.T) {
			m, k := newImages(10), key{pk: "alice"}
			m.observeWrite(k, refilledAt(seen), &cachedBucket{}, &rules.Bucket{At: seen}, false)
			got := m.observe(k, refilledAt(c.refill), &cachedBucket{maxRefill: c.before})
			if got.image.refill != c.image || got.maxRefill != c.seen || got.lastWrite != c.now {
				t.Errorf("image of %d, seen %d, now %d; want %d, %d and %d", got.image.refill, got.maxRefill,
					got.lastWrite, c.image, c.seen, c.now)
			}
		})
	}
}
