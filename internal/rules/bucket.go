// Package rules implements the rules of a bucket that all stores share: judging,
// charging, crediting, repair after a change of limits, expiry and usage.
//
// Stores that keep buckets under a lock or in a transaction (memory, sqlite)
// differ only in where they keep them. A store that writes under conditions
// (dynamo) uses the rules to decide what to write.
//
// Nothing here is safe for concurrent use. A store calls it under its lock.
package rules

import (
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// SweepMargin is how long after its expiry a store removes a bucket, in
// milliseconds. Clients whose clocks differ by less get the same answers whether
// or not the bucket was removed.
const SweepMargin = 3600 * 1000

const (
	hour  = 3600 * 1000
	day   = 24 * hour
	never = math.MaxInt64
)

// Bucket is the state of one bucket.
type Bucket struct {
	// Account holds the limits that last judged the bucket. It is immutable: a
	// change replaces it.
	Account *limiter.Account
	// Tokens are thousandths in the order of Account.Limits, at time At.
	Tokens []int64
	At     int64
	// Starts holds for each quota the start of the window that its tokens belong
	// to, and 0 for a rate. It is nil if no limit is a quota.
	Starts []int64
	// Peaks holds for each quota the largest capacity that was in force in its
	// window, in thousandths, and 0 if that is the present one; nil if all are 0.
	Peaks []int64
	// Hidden holds for each quota by how many thousandths its real use exceeds the use
	// that its tokens and its capacity show, and 0 for a rate; nil if all are 0. See
	// [Level.become].
	Hidden []int64
	// Left holds limits that have left and are not forgotten yet, by name. It is replaced
	// and never changed, since copies of the bucket share it.
	Left []Level
	// Keep is the time before which the bucket does not expire, because it had limits
	// that would be full only then; 0 for none.
	Keep int64
	// Idle is how long the bucket stays without a write; 0 means forever.
	// Expires is when that time is over; 0 means never.
	Idle, Expires int64
	// Pulled is by how much [Bucket.PullBack] moved At back in all.
	Pulled int64
	Usage
	// counted reports whether the current change has used or returned tokens.
	counted bool
}

// Usage is the consumption of a bucket in one hour that is not in the snapshots
// yet.
type Usage struct {
	Hour   int64   // start of the hour
	Used   []int64 // whole tokens in the order of the limits
	Spared []int64 // how often each shadow limit was spared; nil for never
	Events int64   // number of changes
}

// Book adds the usage of a bucket to the snapshots of its store.
type Book func(*limiter.Account, Usage) error

// NoBook discards usage. It is the Book of a bucket that is only read.
func NoBook(*limiter.Account, Usage) error { return nil }

// New returns a full bucket.
func New(now int64, account *limiter.Account, idle int64) Bucket {
	b := Bucket{Account: account, At: now, Idle: idle, Starts: newStarts(now, account.Limits)}
	b.size(len(account.Limits))
	for i, l := range account.Limits {
		b.Tokens[i] = l.Capacity * bucket.Milli
	}
	b.extend()
	return b
}

// size allocates Tokens and Used for n limits in one block, since a charge
// touches both.
func (b *Bucket) size(n int) {
	room := make([]int64, 2*n)
	b.Tokens, b.Used = room[:n:n], room[n:]
}

// Clone returns a copy that shares no mutable memory with b.
func (b *Bucket) Clone() Bucket {
	c := *b
	c.Tokens, c.Used = slices.Clone(b.Tokens), slices.Clone(b.Used)
	c.Starts, c.Spared = slices.Clone(b.Starts), slices.Clone(b.Spared)
	c.Peaks, c.Hidden = slices.Clone(b.Peaks), slices.Clone(b.Hidden)
	return c
}

// extend sets Expires for a bucket that was just written.
func (b *Bucket) extend() {
	b.Expires = 0
	if b.Idle > 0 {
		// The bucket may have replaced longer limits. They would start full
		// again if it were gone before Keep.
		b.Expires = wholeSeconds(max(b.Keep, bucket.Add(b.At, b.Idle)))
	}
}

// wholeSeconds rounds ms up to whole seconds. Stores keep the expiry of a bucket
// in seconds.
func wholeSeconds(ms int64) int64 {
	if rest := mod(ms, bucket.Milli); rest > 0 {
		return bucket.Add(ms, bucket.Milli-rest)
	}
	return ms
}

// Gone reports whether the bucket counts as absent at now: it has expired, and
// every limit is full again, so that its removal forgives no debt. Both times are
// rounded up to whole seconds.
func (b *Bucket) Gone(now int64) bool {
	return b.Expires != 0 && b.Expires <= now && wholeSeconds(b.Full()) <= now
}

// Full returns the time at which every limit is full if nothing more is taken, also
// those that have left.
func (b *Bucket) Full() int64 {
	full := b.At
	for i := range b.Account.Limits {
		v := b.Level(i)
		full = max(full, v.fullAt())
	}

	// A limit that has left joins again with what it has, so its debt counts
	// too.
	for _, v := range b.Left {
		full = max(full, v.fullAt())
	}
	return full
}

// Idle returns how long a bucket with these limits stays without a write:
// multiplier times the longest fill time of its rates, rounded up to whole seconds,
// at least one. A bucket of quotas alone stays for a day, so that it outlives the
// leases that are open at a boundary; no bucket expires before it is full. Idle
// returns 0, which means forever, for limits of one entity and resource, and for a
// negative multiplier.
func Idle(limits []limiter.Limit, source limiter.Scope, multiplier int) int64 {
	// As in the Python library, a bucket stays forever if its entity has limits of
	// its own for the resource.
	if multiplier < 0 || source.Level() == "entity" {
		return 0
	}

	longest := longestFill(limits)
	if longest == 0 {
		return day
	}

	// The product would overflow, or a rate never fills.
	if longest > (math.MaxInt64-bucket.Milli)/int64(multiplier) {
		return 0
	}

	// Stores keep the expiry of a bucket in seconds.
	seconds := (longest*int64(multiplier) + bucket.Milli - 1) / bucket.Milli
	return max(1, seconds) * bucket.Milli
}

// longestFill returns the fill time of the slowest rate, and 0 if all limits are
// quotas.
func longestFill(limits []limiter.Limit) (longest int64) {
	for _, l := range limits {
		if l.Window == 0 {
			longest = max(longest, bucket.FillTime(RateOf(l)))
		}
	}
	return longest
}

// DefaultTTL is the default of a store's BucketTTL option, in fill times.
const DefaultTTL = 7

// Multiplier returns the BucketTTL of a store's options, or the default for 0.
func Multiplier(bucketTTL int) int {
	if bucketTTL == 0 {
		return DefaultTTL
	}
	return bucketTTL
}

// WithoutLevel returns the account of a listed bucket for which no level holds
// limits.
func WithoutLevel(a *limiter.Account) *limiter.Account {
	listed := *a
	listed.Source, listed.Default = limiter.Scope{}, true
	return &listed
}

// Advance refills the bucket up to now. Rates do not change if now is not after
// At.
func (b *Bucket) Advance(now int64) {
	at := max(now, b.At)
	b.settleLeft(at, now)
	// A boundary may be due although At stays: quotas depend on now, and not on
	// the bucket's own time.
	if at == b.At && b.Starts == nil {
		return
	}

	for i := range b.Account.Limits {
		b.Tokens[i] = b.advanced(i, at, now)
	}
	b.At = at
	b.openWindows(now)
}

// tokensAt returns the tokens of rates at a time, which is not before At, and of
// quotas at now.
func (b *Bucket) tokensAt(at, now int64) []int64 {
	tokens := make([]int64, len(b.Tokens))
	b.refill(tokens, at, now)
	return tokens
}

// refill stores the tokens of tokensAt in tokens.
func (b *Bucket) refill(tokens []int64, at, now int64) {
	copy(tokens, b.Tokens)
	// As in Advance, a quota may be due although the bucket's own time stays.
	if at > b.At || b.Starts != nil {
		for i := range tokens {
			tokens[i] = b.advanced(i, at, now)
		}
	}
}

// count adds n to the usage of a limit. endChange counts the event.
func (b *Bucket) count(limit int, n int64) {
	if n != 0 {
		b.Used[limit] = bucket.Add(b.Used[limit], n)
		b.counted = true
	}
}

// spare counts a charge that a shadow limit did not cover.
func (b *Bucket) spare(limit int) {
	if b.Spared == nil {
		b.Spared = make([]int64, len(b.Tokens))
	}
	b.Spared[limit]++
	b.counted = true
}

// endChange stores the tokens that a change leaves, with the times of rates and
// quotas, and counts it as one event if it used anything.
func (b *Bucket) endChange(at, now int64, tokens []int64) {
	copy(b.Tokens, tokens)
	b.At = at
	b.openWindows(now)
	b.settleLeft(at, now)

	// A charge of 0 writes the bucket too, and is no event of its usage.
	if b.counted {
		b.Events++
		b.counted = false
	}

	// The idle time begins with the last write, also one that used nothing.
	b.extend()
}

// startHour makes Usage count the hour of now. It books an earlier hour first.
func (b *Bucket) startHour(now int64, book Book) error {
	start := now - mod(now, hour)
	if start == b.Hour {
		return nil
	}

	// Usage holds one hour, so the earlier one goes to the snapshots first.
	if err := b.Flush(book); err != nil {
		return err
	}

	b.Hour = start
	return nil
}

// Flush moves the usage to the snapshots. Stores call it before they remove the
// bucket or read the snapshots.
func (b *Bucket) Flush(book Book) error {
	// Any use counts as an event, so without events there is no usage.
	if b.Events == 0 {
		return nil
	}

	if err := book(b.Account, b.Usage); err != nil {
		return err
	}

	clear(b.Used)
	b.Spared, b.Events = nil, 0
	return nil
}

// Sorted returns a copy of limits in the order of their names.
func Sorted(limits []limiter.Limit) []limiter.Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b limiter.Limit) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// find returns the index of a limit, or -1. The search begins at begin: amounts
// and limits are often in the same order.
func find(limits []limiter.Limit, name string, begin int) int {
	for i := range limits {
		j := i + begin
		if j >= len(limits) {
			j %= len(limits)
		}
		if limits[j].Name == name {
			return j
		}
	}
	return -1
}

// mod returns the non-negative remainder of a divided by m > 0.
func mod(a, m int64) int64 {
	if r := a % m; r >= 0 {
		return r
	}
	return a%m + m
}
