// Package rules defines what a bucket means: judging, charging, crediting, repairing
// after a change of limits, expiry and usage. Stores that keep their state under
// a lock or in a transaction (memory, sqlite) share it and differ only in where
// the state lies; one that writes under conditions (dynamo) decides by it what
// to write.
//
// Nothing here is safe for concurrent use; the store's lock is.
package rules

import (
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// SweepMargin is how long after its expiry a bucket may be removed: clients
// whose clocks disagree by less see the same, swept or not. In milliseconds.
const SweepMargin = 3600 * 1000

const hour = 3600 * 1000

// Bucket is the state of one bucket.
type Bucket struct {
	// Account has the limits the bucket was last judged by. It is replaced, not
	// changed.
	Account *limiter.Account
	// Tokens are thousandths in the order of Account.Limits, at time At.
	Tokens []int64
	At     int64
	// Idle is how long the bucket stays when it is not written, 0 for ever, and
	// Expires when that is over.
	Idle, Expires int64
	// Pulled is by how much At was moved back in all, since a clock far ahead had
	// moved it.
	Pulled int64
	Usage
	counted bool // the change under way has used something
}

// Usage is what a bucket consumed in one hour and has not yet been added to
// the snapshots: whole tokens in the order of the limits, and how many changes
// made them.
type Usage struct {
	Hour   int64
	Used   []int64
	Events int64
}

// Book adds the usage of a bucket to the snapshots of its store.
type Book func(*limiter.Account, Usage) error

// New is a full bucket.
func New(now int64, account *limiter.Account, idle int64) Bucket {
	b := Bucket{Account: account, At: now, Idle: idle}
	b.size(len(account.Limits))
	for i, l := range account.Limits {
		b.Tokens[i] = l.Capacity * bucket.Milli
	}
	b.renew()
	return b
}

// size makes room for n limits, side by side: a charge touches both.
func (b *Bucket) size(n int) {
	room := make([]int64, 2*n)
	b.Tokens, b.Used = room[:n:n], room[n:]
}

// Clone shares nothing that is written.
func (b *Bucket) Clone() Bucket {
	c := *b
	c.Tokens, c.Used = slices.Clone(b.Tokens), slices.Clone(b.Used)
	return c
}

func (b *Bucket) renew() {
	b.Expires = 0
	if b.Idle > 0 {
		b.Expires = wholeSeconds(bucket.Add(b.At, b.Idle))
	}
}

// wholeSeconds rounds up: that is how stores keep the end of a bucket that
// others share.
func wholeSeconds(ms int64) int64 {
	if rest := mod(ms, bucket.Milli); rest > 0 {
		return bucket.Add(ms, bucket.Milli-rest)
	}
	return ms
}

// Gone tells whether the bucket counts as absent at now: it has idled long
// enough, and every limit is full again, so that nothing is forgiven. Either
// ends on a whole second.
func (b *Bucket) Gone(now int64) bool {
	return b.Expires != 0 && b.Expires <= now && wholeSeconds(b.Full()) <= now
}

// Full is when every limit is full at the latest, if nothing more is taken.
func (b *Bucket) Full() int64 {
	full := b.At
	for i, l := range b.Account.Limits {
		r := rate(l)
		r.Capacity = bucket.Sub(r.Capacity, b.Tokens[i])
		full = max(full, bucket.Add(b.At, bucket.FillTime(r)))
	}
	return full
}

// Idle is how long a bucket with these limits stays untouched: multiplier times
// the longest fill time, in whole seconds rounded up. 0 is for ever: limits of
// one entity and resource keep their bucket, a negative multiplier keeps all.
func Idle(limits []limiter.Limit, source limiter.Scope, multiplier int) int64 {
	if multiplier < 0 || source.Level() == "entity" {
		return 0
	}
	longest := longestFill(limits)
	if longest > (math.MaxInt64-bucket.Milli)/int64(multiplier) {
		return 0
	}
	seconds := (longest*int64(multiplier) + bucket.Milli - 1) / bucket.Milli
	return max(1, seconds) * bucket.Milli
}

// longestFill is how long the slowest limit takes to fill.
func longestFill(limits []limiter.Limit) (longest int64) {
	for _, l := range limits {
		longest = max(longest, bucket.FillTime(rate(l)))
	}
	return longest
}

// DefaultTTL is how many fill times a bucket stays idle unless options say
// otherwise.
const DefaultTTL = 7

// Multiplier is the BucketTTL of a store's options, or the default.
func Multiplier(bucketTTL int) int {
	if bucketTTL == 0 {
		return DefaultTTL
	}
	return bucketTTL
}

// Advance moves the whole bucket to now; a now behind it counts as its own
// time.
func (b *Bucket) Advance(now int64) {
	if now <= b.At {
		return
	}
	for i, l := range b.Account.Limits {
		b.Tokens[i] = bucket.Advance(b.Tokens[i], b.At, now, rate(l))
	}
	b.At = now
}

// Repair makes the bucket follow the limits in force from now on: what accrued
// until now accrued by the old ones, new limits start full, removed ones go, a
// lower capacity clamps, a higher one does not fill. It tells whether anything
// changed.
func (b *Bucket) Repair(now int64, account *limiter.Account, idle int64, book Book) (bool, error) {
	if slices.Equal(b.Account.Limits, account.Limits) {
		changed := b.Account.Source != account.Source || b.Idle != idle
		if changed || b.Account.Default != account.Default { // which is not stored
			b.Account, b.Idle = account, idle
		}
		if changed {
			b.renew()
		}
		return changed, nil
	}
	if err := b.Flush(book); err != nil {
		return false, err
	}
	b.Advance(now)
	old := *b
	b.size(len(account.Limits))
	for i, l := range account.Limits {
		b.Tokens[i] = l.Capacity * bucket.Milli
		if j := find(old.Account.Limits, l.Name, i); j >= 0 {
			b.Tokens[i] = min(b.Tokens[i], old.Tokens[j])
		}
	}
	b.Account, b.Idle = account, idle
	b.renew()
	return true, nil
}

// Credit gives back positive amounts, up to the capacity, and takes negative
// ones whatever is there. A limit that is gone is skipped; a credit that
// changes nothing is none.
func (b *Bucket) Credit(now int64, amounts *limiter.Amounts, book Book) error {
	if !b.credited(amounts) {
		return nil
	}
	if err := b.open(max(now, b.At), book); err != nil {
		return err
	}
	b.Advance(now)
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(b.Account.Limits, name, i); j >= 0 {
			full := b.Account.Limits[j].Capacity * bucket.Milli
			b.Tokens[j] = min(full, bucket.Add(b.Tokens[j], bucket.Thousandths(n)))
			b.count(j, bucket.Sub(0, n))
		}
	}
	b.settle(b.At, b.Tokens)
	return nil
}

// credited tells whether a credit is about any limit of the bucket.
func (b *Bucket) credited(amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		if name, n := amounts.At(i); n != 0 && find(b.Account.Limits, name, i) >= 0 {
			return true
		}
	}
	return false
}

// refilled is what the limits hold at now, which is not before b's own time.
func (b *Bucket) refilled(now int64) []int64 {
	tokens := make([]int64, len(b.Tokens))
	copy(tokens, b.Tokens)
	if now > b.At {
		for i := range tokens {
			tokens[i] = bucket.Advance(tokens[i], b.At, now, rate(b.Account.Limits[i]))
		}
	}
	return tokens
}

// count adds to the usage of a limit. The change it is part of counts once it
// is settled.
func (b *Bucket) count(limit int, n int64) {
	if n != 0 {
		b.Used[limit] = bucket.Add(b.Used[limit], n)
		b.counted = true
	}
}

// settle ends a change: the bucket holds tokens at time now.
func (b *Bucket) settle(now int64, tokens []int64) {
	copy(b.Tokens, tokens)
	b.At = now
	if b.counted {
		b.Events++
		b.counted = false
	}
	b.renew()
}

// Takes is the part of a credit that takes more, and whether there is any.
func Takes(amounts *limiter.Amounts) (takes limiter.Amounts, some bool) {
	for i := range amounts.Len() {
		if name, n := amounts.At(i); n < 0 {
			takes, some = takes.And(name, n), true
		}
	}
	return takes, some
}

// open makes Usage that of the hour of now.
func (b *Bucket) open(now int64, book Book) error {
	start := now - mod(now, hour)
	if start == b.Hour {
		return nil
	}
	if err := b.Flush(book); err != nil {
		return err
	}
	b.Hour = start
	return nil
}

// Flush moves the usage to the snapshots: when its hour is over, its limits
// change, or the bucket goes.
func (b *Bucket) Flush(book Book) error {
	if b.Events == 0 {
		return nil
	}
	if err := book(b.Account, b.Usage); err != nil {
		return err
	}
	clear(b.Used)
	b.Events = 0
	return nil
}

// Sorted is a copy of limits by name.
func Sorted(limits []limiter.Limit) []limiter.Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
}

// find is the index of a limit, or -1. Both sides are often in the same order,
// so the search begins where the name would then be.
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

func rate(l limiter.Limit) bucket.Rate {
	return bucket.RateOf(l.Capacity, l.Refill, l.Period)
}

func mod(a, m int64) int64 {
	if r := a % m; r >= 0 {
		return r
	}
	return a%m + m
}

// NoBook is the book of a bucket that is only looked at.
func NoBook(*limiter.Account, Usage) error { return nil }
