package escrow

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// image holds the balances of the last answer.
type image struct {
	self, parent balances
	// later holds the balances of self, then those of parent, at laterAt. Most
	// calls of a busy pot come in the same millisecond and share them.
	later   []int64
	laterAt int64
	details [2]*limiter.Detail // at laterAt
}

// balances holds the tokens of an account, as an answer showed them.
type balances struct {
	tokens []int64 // thousandths; nil if unknown
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

// advance stores the balances at now in tokens.
func (b *balances) advance(tokens []int64, limits []limiter.Limit, now int64) {
	for i := range b.tokens {
		tokens[i] = b.advanced(i, limits[i], now)
	}
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

// bucket returns the bucket of an account at now, with tokens and a detail of the
// same time.
func (b *balances) bucket(a *limiter.Account, tokens []int64, detail *limiter.Detail, now int64) limiter.Bucket {
	return limiter.Bucket{Account: a, Tokens: tokens, Ahead: ahead(b.at, now), Detail: detail}
}

// ahead returns how far a bucket's own time is later than now.
func ahead(at, now int64) time.Duration { return time.Duration(max(0, at-now)) * time.Millisecond }

// laterBucket returns a bucket that was found at one time as it is at another.
func laterBucket(b *limiter.Bucket, from, now int64) limiter.Bucket {
	// A refusal may leave out the parent.
	if b.Account == nil {
		return limiter.Bucket{}
	}

	found := balancesOf(b, from)
	tokens := make([]int64, len(b.Tokens))
	found.advance(tokens, b.Account.Limits, now)

	return found.bucket(b.Account, tokens, found.detail(b.Account.Limits, now), now)
}
