package rules

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// A bucket remembers limits that are removed or replaced until they would be full.
// Otherwise a limit that is removed and set again would start full each time, and so
// would a limit whose bucket expired under a shorter one. For example, 300 a month
// are used up and become 10 a day. If the bucket expired when those 10 are full, 300
// a month would start full again in the same month.
//
// A limit that is removed moves to Left with its balance, and joins again with what
// it has. When a limit is replaced, Keep records when it would have been full. Until
// then the bucket does not expire, and forgets no limit in Left, since a limit in Left
// may have replaced it.

// MaxLimits is how many limits a bucket has room for, with those that have left. On
// DynamoDB, the conditions of more would not fit into one expression.
const MaxLimits = 24

// Level is one limit of a bucket with its balance.
type Level struct {
	Limit  limiter.Limit
	Tokens int64 // thousandths at time At
	At     int64
	// Start, Peak and Hidden are a quota's, as in Bucket.Starts, Bucket.Peaks and
	// Bucket.Hidden.
	Start, Peak, Hidden int64
}

// Level returns limit i by itself.
func (b *Bucket) Level(i int) Level {
	v := Level{Limit: b.Account.Limits[i], Tokens: b.Tokens[i], At: b.At}
	if b.Starts != nil {
		v.Start = b.Starts[i]
	}
	if b.Peaks != nil {
		v.Peak = b.Peaks[i]
	}
	if b.Hidden != nil {
		v.Hidden = b.Hidden[i]
	}

	return v
}

func (v *Level) rate() bucket.Rate {
	r := RateOf(v.Limit)
	r.Peak = v.Peak
	return r
}

// advanced returns the level at a time, which is not before At, if it is a rate, and
// at now if it is a quota.
func (v Level) advanced(at, now int64) Level {
	if v.Limit.Window == 0 {
		v.Tokens, v.At = bucket.Advance(v.Tokens, v.At, at, v.rate()), at
		return v
	}

	v.Tokens = bucket.Advance(v.Tokens, v.Start, now, v.rate())
	// A boundary ends the peak and the hidden use of its window. A quota whose
	// zone cannot be loaded has no boundaries.
	if w := RateOf(v.Limit).Window; w != nil && w.Start(now) > v.Start {
		v.Start, v.Peak, v.Hidden = w.Start(now), 0, 0
	}

	v.At = at
	return v
}

// full reports whether nothing of an advanced level is used. A quota whose window
// begins later is not full: a new one would be in the window before.
func (v *Level) full(now int64) bool {
	return v.Tokens >= v.Limit.Capacity*bucket.Milli && v.Start <= now
}

// fullAt returns when the level is full.
func (v *Level) fullAt() int64 {
	from := v.At
	if v.Limit.Window != 0 {
		from = v.Start
	}
	return bucket.FullAt(v.Tokens, from, v.rate())
}

// forgets reports whether the bucket forgets an advanced level that has left: the
// level is full, and the limits that it may have replaced would be full too.
func (b *Bucket) forgets(v *Level, now int64) bool { return b.Keep <= now && v.full(now) }

// findLeft returns the index of a limit that has left, or -1.
func (b *Bucket) findLeft(name string) int {
	return slices.IndexFunc(b.Left, func(v Level) bool { return v.Limit.Name == name })
}

// joins returns the level of a limit that the bucket lacks when it joins: full, or
// what it had when it left.
func (b *Bucket) joins(l limiter.Limit, at, now int64) Level {
	if j := b.findLeft(l.Name); j >= 0 {
		if v := b.Left[j].advanced(at, now); !b.forgets(&v, now) {
			// The level goes in as it is stored. become decides whether a step
			// that is due is taken.
			return b.Left[j].become(l, at, now, b.Keep)
		}
	}
	return newLevel(l, at, now)
}

// newLevel returns the level of a new limit.
func newLevel(l limiter.Limit, at, now int64) Level {
	v := Level{Limit: l, Tokens: l.Capacity * bucket.Milli, At: at}
	if l.Window != 0 {
		v.Start = windowStart(l, now)
	}
	return v
}

// keep makes the bucket stay until a limit that l replaces would have been full.
func (b *Bucket) keep(was Level, l limiter.Limit, at, now int64) {
	// A limit that becomes a shadow limit, or the reverse, keeps its balance
	// and replaces nothing.
	l.IsShadow = was.Limit.IsShadow
	if was.Limit == l {
		return
	}

	// A rate fills by the bucket's own time, and a quota by the caller's.
	present := at
	if was.Limit.Window != 0 {
		present = now
	}

	// A limit that never fills would keep the bucket forever.
	if full := was.fullAt(); full > present && full < never {
		b.Keep = max(b.Keep, full)
	}
}

// LeftAt returns the limits that have left, refilled and stepped, without those that
// the bucket forgets.
func (b *Bucket) LeftAt(at, now int64) (left []Level) {
	for _, v := range b.Left {
		if v = v.advanced(at, now); !b.forgets(&v, now) {
			left = append(left, v)
		}
	}
	return left
}

// RefillLeft refills the rates that have left up to a time. A store that keeps one
// refill time for all limits of a bucket calls it before it advances that time.
func (b *Bucket) RefillLeft(at int64) {
	b.Left = slices.Clone(b.Left)
	for i, v := range b.Left {
		// Quotas fill by the windows that they are in.
		if v.Limit.Window == 0 {
			b.Left[i] = v.advanced(max(at, v.At), at)
		}
	}
}

// settleLeft forgets limits that have left, and steps quotas that are due.
// Otherwise it leaves the list, which need not be stored then.
func (b *Bucket) settleLeft(at, now int64) {
	for _, v := range b.Left {
		// A refill alone need not be stored: Advance adds up to the same,
		// however the time is split.
		if later := v.advanced(at, now); b.forgets(&later, now) || later.Start != v.Start {
			b.Left = b.LeftAt(at, now)
			return
		}
	}
}

// leave makes the limits of old that a repaired bucket lacks leave.
func (b *Bucket) leave(old *Bucket, at, now int64) {
	left := old.LeftAt(at, now)
	for i := range old.Account.Limits {
		// A limit that is full leaves nothing to remember, unless it has
		// replaced one that would not be full.
		if v := old.Level(i).advanced(at, now); !old.forgets(&v, now) {
			left = append(left, v)
		}
	}

	// A limit that stays, or has joined again, has its balance in the bucket
	// itself.
	left = slices.DeleteFunc(left, func(v Level) bool { return find(b.Account.Limits, v.Limit.Name, 0) >= 0 })
	slices.SortFunc(left, compareLevels)

	// A limit that is forgotten comes back full. The fullest one gains least by
	// that.
	for len(left) > max(0, MaxLimits-len(b.Account.Limits)) {
		i := fullest(left)
		left = slices.Delete(left, i, i+1)
	}

	b.Left = left
}

func compareLevels(a, b Level) int { return strings.Compare(a.Limit.Name, b.Limit.Name) }

// fullest returns the index of the level that is closest to its capacity.
func fullest(levels []Level) (best int) {
	part := func(v Level) float64 { return float64(v.Tokens) / float64(v.Limit.Capacity) }
	for i, v := range levels {
		if part(v) > part(levels[best]) {
			best = i
		}
	}
	return best
}

// creditLeft applies the amounts of a credit that are for limits that have left, and
// counts their usage. The credit is one event.
func (b *Bucket) creditLeft(now int64, amounts *limiter.Amounts, spared []string, book Book) error {
	var left []Level
	var limits []limiter.Limit
	usage := Usage{Hour: b.Hour}

	for i, v := range b.Left {
		n, _ := amounts.Lookup(v.Limit.Name)
		if n == 0 {
			continue
		}
		// The charge took nothing from a limit that it spared, so only the
		// usage changes.
		if !slices.Contains(spared, v.Limit.Name) {
			// Copies of the bucket share Left, so it is replaced and not
			// changed.
			if left == nil {
				left = slices.Clone(b.Left)
			}
			left[i] = v.advanced(b.At, now).Give(bucket.Thousandths(n))
		}

		limits, usage.Used = append(limits, v.Limit), append(usage.Used, bucket.Sub(0, n))
	}

	if left != nil {
		b.Left = left
	}
	if limits == nil {
		return nil
	}

	// Used has no place for these limits, so their usage is booked at once. A credit
	// is one event. If it changed a limit of the bucket too, endChange counts it.
	if !b.counted {
		usage.Events = 1
	}

	return book(&limiter.Account{Entity: b.Account.Entity, Resource: b.Account.Resource, Limits: limits}, usage)
}
