package escrow

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// image holds the balances of the payers, as the last answers showed them.
type image struct {
	payers []balances
	// later holds the buckets at laterAt; nil after an answer. Most calls of a
	// busy pot come in the same millisecond and share them.
	later   []limiter.Bucket
	laterAt int64
}

// buckets returns the buckets of the payers at now. The next call overwrites their
// tokens.
func (m *image) buckets(payers []*limiter.Account, now int64) []limiter.Bucket {
	if m.later != nil && m.laterAt == now {
		return m.later
	}

	if m.later == nil {
		m.later = make([]limiter.Bucket, len(payers))
	}
	for i, payer := range payers {
		m.later[i] = m.payers[i].bucket(payer, now, m.later[i].Tokens)
	}
	m.laterAt = now
	return m.later
}

// balances holds the tokens of an account, as an answer showed them.
type balances struct {
	tokens []int64 // thousandths
	at     int64   // time of the bucket, in milliseconds
	starts []int64 // windows of the quotas; nil if there are none
	peaks  []int64 // of these windows; nil if all are the capacities
}

// balancesOf returns the balances of a bucket that a call at now returned.
func balancesOf(b *limiter.Bucket, now int64) balances {
	// While a bucket is ahead of its caller, its refill starts at its own time.
	found := balances{tokens: b.Tokens, at: now + b.Ahead.Milliseconds(), starts: startsOf(b)}
	if b.Detail != nil {
		found.peaks = b.Detail.Peaks
	}
	return found
}

// startsOf returns the windows of the quotas of a bucket.
func startsOf(b *limiter.Bucket) []int64 {
	if b.Detail == nil {
		return nil
	}
	return b.Detail.Starts
}

// advanced returns the tokens of limit i at now. A quota depends on its window and
// now alone.
func (b *balances) advanced(i int, l limiter.Limit, now int64) int64 {
	from, rate := b.at, rules.RateOf(l)

	// Boundaries alone fill a quota, so what it gains depends on the window of
	// its tokens, not on the bucket's own time.
	if i < len(b.starts) && l.IsQuota() {
		from = b.starts[i]
	}

	// After a capacity was lowered, the next boundary still adds the largest
	// one of the window.
	if i < len(b.peaks) {
		rate.Peak = b.peaks[i]
	}

	return bucket.Advance(b.tokens[i], from, now, rate)
}

// detail returns the windows at now, nil if no limit is a quota.
func (b *balances) detail(limits []limiter.Limit, now int64) *limiter.Detail {
	if b.starts == nil {
		return nil
	}

	d := &limiter.Detail{At: now, Starts: slices.Clone(b.starts), Peaks: slices.Clone(b.peaks)}
	for i, l := range limits {
		if window := rules.RateOf(l).Window; window != nil {
			// A window never goes back: a caller whose clock is behind sees the
			// later one.
			d.Starts[i] = max(d.Starts[i], window.Start(now))
			// A peak belongs to its window. The new window has none yet.
			if d.Peaks != nil && d.Starts[i] != b.starts[i] {
				d.Peaks[i] = 0
			}
		}
	}
	return d
}

// bucket returns the bucket of an account at now. It overwrites room and uses it for
// the tokens, if they fit.
func (b *balances) bucket(a *limiter.Account, now int64, room []int64) limiter.Bucket {
	room = append(room[:0], b.tokens...)
	tokens := room
	for i := range tokens {
		tokens[i] = b.advanced(i, a.Limits[i], now)
	}

	return limiter.Bucket{Account: a, Tokens: tokens, Ahead: ahead(b.at, now), Detail: b.detail(a.Limits, now)}
}

// ahead returns how far a bucket's own time is later than now.
func ahead(at, now int64) time.Duration { return time.Duration(max(0, at-now)) * time.Millisecond }

// laterBuckets returns buckets that were found at one time as they are at another.
func laterBuckets(buckets []limiter.Bucket, from, now int64) []limiter.Bucket {
	later := make([]limiter.Bucket, len(buckets))
	for i := range buckets {
		found := balancesOf(&buckets[i], from)
		later[i] = found.bucket(buckets[i].Account, now, nil)
	}
	return later
}

// fewTokens is the number of limits that most charges have at most, of all payers
// together.
const fewTokens = 4

// Room for the buckets of most charges, so that a copy of them is one allocation.
type (
	oneBucket struct {
		buckets [1]limiter.Bucket
		tokens  [fewTokens]int64
	}
	twoBuckets struct {
		buckets [2]limiter.Bucket
		tokens  [fewTokens]int64
	}
)

// cloneBuckets returns a copy of buckets and of their tokens.
func cloneBuckets(buckets []limiter.Bucket) []limiter.Bucket {
	n := 0
	for i := range buckets {
		n += len(buckets[i].Tokens)
	}

	var clones []limiter.Bucket
	var tokens []int64
	switch {
	case len(buckets) == 1 && n <= fewTokens:
		room := new(oneBucket)
		clones, tokens = room.buckets[:], room.tokens[:]
	case len(buckets) == 2 && n <= fewTokens:
		room := new(twoBuckets)
		clones, tokens = room.buckets[:], room.tokens[:]
	default:
		clones, tokens = make([]limiter.Bucket, len(buckets)), make([]int64, n)
	}

	for i := range buckets {
		clones[i] = buckets[i]
		// The full slice expression keeps an append to the tokens of one bucket
		// from writing into those of the next.
		n := copy(tokens, buckets[i].Tokens)
		clones[i].Tokens, tokens = tokens[:n:n], tokens[n:]
	}
	return clones
}
