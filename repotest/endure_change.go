package repotest

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// validity is the time in which clients may use a limit: from the change that sets it
// until their caches have forgotten it.
type validity struct {
	limit       limiter.Limit
	from, until int64
}

// begin records that a limit comes into force.
func (e *endurance) begin(l limiter.Limit) {
	e.history[l.Name] = append(e.history[l.Name], validity{limit: l, from: e.now.UnixMilli(), until: math.MaxInt64})
}

// end records that the limit of a name ceases to be in force. A limit that replaces it
// keeps what is left, so the bucket does not expire before the old limit would have
// been full. A limit that leaves is full sooner if tokens are given back.
func (e *endurance) end(name string, leaves bool) {
	e.after[name] = e.now.Add(maxCacheAge).UnixMilli()

	all := e.history[name]
	last := &all[len(all)-1]
	last.until = e.after[name]

	for k, b := range e.books {
		if k.limit != name {
			continue
		}

		b.floorKnown = false
		// With several rates, the time at which the limit would have been full
		// is not known.
		if rates := e.rates(b, last.limit); b.meter.known && len(rates) == 1 && !leaves {
			b.meter.keep = max(b.meter.keep, b.meter.at+refillTime(last.limit, capacityOf(last.limit)-b.meter.room))
		}
	}
}

// rates returns the rates by which a bucket may have been refilled since its limit was
// last known, and l if it is a rate. If the limit may have been a quota in between, the
// meter begins again.
func (e *endurance) rates(b *book, l limiter.Limit) (rates []limiter.Limit) {
	if !l.IsQuota() {
		rates = append(rates, l)
	}

	for _, v := range e.history[l.Name] {
		switch {
		// After that time the bucket surely had a later limit.
		case v.until < b.settled:
		case v.limit.IsQuota():
			b.meter.known = false
		case !slices.Contains(rates, v.limit):
			rates = append(rates, v.limit)
		}
	}
	return rates
}

// ratesOf returns the rates by which a bucket may have been refilled.
func (e *endurance) ratesOf(b *book, name string) []limiter.Limit {
	all := e.history[name]
	return e.rates(b, all[len(all)-1].limit)
}

// meter bounds what a rate holds from above, over changes of the limit. Between events
// every window gains the same, so one number stands for all windows.
type meter struct {
	room, at int64 // thousandths at a time
	extra    int64 // what a store may hold above the capacity
	// keep is the time before which the bucket does not start again, since limits
	// that it had were not full.
	keep  int64
	known bool // otherwise it may be full
}

// advance refills up to a time, by the fastest of some rates and up to the largest
// capacity. A bucket that is full by the smallest may have expired, and starts again.
func (m *meter) advance(to int64, rates []limiter.Limit) {
	if !m.known || len(rates) == 0 {
		return
	}

	largest := most(rates, capacityOf)

	if to > m.at {
		m.room += most(rates, func(l limiter.Limit) int64 { return earned(l, to) - earned(l, m.at) })
		m.at = to
	}

	smallest := -most(rates, func(l limiter.Limit) int64 { return -capacityOf(l) })
	if m.room >= smallest && m.at >= m.keep {
		m.room = max(m.room, largest)
	}

	m.room = min(m.room, largest+m.extra)
}

// most returns the largest number that a function returns for one of some limits.
func most(limits []limiter.Limit, of func(limiter.Limit) int64) int64 {
	largest := int64(math.MinInt64)
	for _, l := range limits {
		largest = max(largest, of(l))
	}
	return largest
}
