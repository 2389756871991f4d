package repotest

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

type accountLimit struct{ entity, resource, limit string }

// book holds what is known about one limit of a bucket.
type book struct {
	meter   meter
	least   int64 // lower bound of the net consumption, in whole tokens
	largest int64 // the latest time passed to a call for it
	// settled is a time at which the bucket surely had the limit in force.
	settled int64

	// If floorKnown is true, the use is at most that of floor.
	floor      tally
	floorKnown bool
	credited   int64 // the latest time of a possible give-back
	recent     []giveBack
	windows    map[windowStart]*windowSum
}

// giveBack is a number of whole tokens that may have been given back.
type giveBack struct{ at, tokens int64 }

// give books tokens that may be given back. A store may hold them for hold
// milliseconds before it spends them.
func (b *book) give(n, hold int64, rates []limiter.Limit) {
	b.credited = max(b.credited, b.largest)
	b.least -= n

	if hold > 0 {
		b.recent = append(b.recent, giveBack{b.largest, n})
	}
	// Otherwise the next window begins full anyway.
	if b.meter.known {
		b.open(hold, rates)
		b.meter.room += n * milli
	}
}

// open begins a window at the latest time. A store that holds tokens may spend in
// it what was given back up to hold before.
func (b *book) open(hold int64, rates []limiter.Limit) {
	b.recent = slices.DeleteFunc(b.recent, func(g giveBack) bool { return g.at < b.largest-hold })
	b.meter.advance(b.largest, rates)

	b.meter.extra = 0
	for _, g := range b.recent {
		b.meter.extra += g.tokens * milli
	}
	// The refill up to here was bounded by what could be held before. From here
	// on, the present bound applies.
	b.meter.advance(b.largest, rates)
}

// take books tokens that were surely taken, which no limit bounds. If they put the
// bucket into debt, it admits nothing, but a client may spend what it holds.
func (b *book) take(n int64, held bool, rates []limiter.Limit) {
	b.least += n
	if b.meter.known && !held {
		b.meter.advance(b.largest, rates)
		b.meter.room -= n * milli
	}
}

// book returns the book of one limit and updates its latest time.
func (e *endurance) book(now int64, account *limiter.Account, limit string) *book {
	k := accountLimit{account.Entity, account.Resource, limit}
	if e.books[k] == nil {
		e.books[k] = &book{}
	}

	e.books[k].largest = max(e.books[k].largest, now)
	return e.books[k]
}

// find returns the current limit of a name.
func (e *endurance) find(name string) (limiter.Limit, bool) {
	i := slices.IndexFunc(e.limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return limiter.Limit{}, false
	}
	return e.limits[i], true
}

// checkAdmission checks that a charge fits the limits, also while they change.
func (e *endurance) checkAdmission(now int64, b limiter.Bucket, amounts limiter.Amounts) {
	e.Helper()

	for limit, n := range amounts.All() {
		bk, i := e.book(now, b.Account, limit), indexOf(b.Account.Limits, limit)
		bk.least += n

		if i < 0 || e.spares(b, i, n) {
			continue
		}

		l := b.Account.Limits[i]
		// Until clients have forgotten an older limit, they may still use that.
		current, inForce := e.find(limit)
		settled := inForce && current == l && bk.largest >= e.after[limit]

		if settled {
			e.checkShadow(b, i)
		}

		if l.IsQuota() {
			e.checkWindow(bk, l, b, i, n)
		} else {
			e.checkRate(bk, l, b, n, settled)
		}

		if settled {
			bk.settled = bk.largest
		}
	}
}

// checkRate checks that no window that ends with a charge admits more than the
// capacity and the refill, by the limits that may have been in force.
func (e *endurance) checkRate(bk *book, l limiter.Limit, b limiter.Bucket, n int64, settled bool) {
	e.Helper()

	rates := e.rates(bk, l)
	bk.open(e.holds(), rates)
	m := &bk.meter
	// A bucket about which nothing is known may be full.
	if !m.known {
		m.room, m.at, m.known = most(rates, capacityOf)+m.extra, bk.largest, true
	}
	// The bucket surely has this limit, so it holds no more than that.
	if settled {
		m.room = min(m.room, capacityOf(l)+m.extra)
	}

	// The clocks of clients differ by skew, and a difference of rounded refills
	// may be one thousandth off.
	slack := int64(e.slack * float64(most(rates, capacityOf)))
	slack += most(rates, func(l limiter.Limit) int64 { return earned(l, skew.Milliseconds()) }) + 1

	if m.room -= n * milli; -m.room > slack {
		e.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l,
			b.Account.Entity, b.Account.Resource, -m.room)
	}
}

// checkBalances checks the balances of a refusal against the lower bounds of
// the bucket. It takes new lower bounds from an admission.
func (e *endurance) checkBalances(now int64, b limiter.Bucket, amounts limiter.Amounts, admitted bool) {
	e.Helper()

	for i, l := range b.Account.Limits {
		bk := e.book(now, b.Account, l.Name)
		// The client may not know the limit in force yet, so its balance bounds
		// nothing.
		if inForce, ok := e.find(l.Name); !ok || inForce != l || bk.largest < e.after[l.Name] {
			bk.floorKnown = false
			continue
		}

		if admitted {
			floor := tally{
				limit: l, most: max(0, capacityOf(l)-b.Tokens[i]), at: now, peakLeast: capacityOf(l),
				peakMost: capacityOf(l),
			}

			if l.IsQuota() && b.Detail != nil {
				floor.start = b.Detail.Starts[i]
			}
			bk.setFloor(floor, e.overlapped)
			continue
		}

		n, named := amounts.Lookup(l.Name)
		// Another limit may have refused the charge.
		if !named || b.Tokens[i] >= n*milli {
			continue
		}

		// Tokens may have been taken since the floor was known, or a cached
		// refusal may apply.
		if e.lossy || e.calling || !bk.floorKnown || now < bk.credited+maxRefusalAge {
			continue
		}
		// At a boundary a cached refusal may apply, as after tokens that were
		// given back.
		if l.IsQuota() && now < bk.floor.start+maxRefusalAge {
			continue
		}

		floor, _ := e.oracle.later(bk.floor, now).room()
		if !l.IsQuota() {
			floor -= earned(l, skew.Milliseconds()) + 1
		}

		if b.Tokens[i] < floor {
			e.fail("%s of %s and %s: a refusal shows %d thousandths, but the bucket holds at least %d", l,
				b.Account.Entity, b.Account.Resource, b.Tokens[i], floor)
		}
	}
}

// maxRefusalAge is how long, in milliseconds, a client may refuse from its
// cache after tokens were given back, or a window began.
const maxRefusalAge = 1000 + 2*int64(skew/1e6)

// setFloor takes the balance after an admission as a lower bound. If the call
// overlapped another, the smaller balance is safe.
func (b *book) setFloor(floor tally, overlapped bool) {
	if overlapped && !b.floorKnown {
		// The other call may have made the floor unknown.
		return
	}

	if b.floorKnown && b.floor.limit == floor.limit {
		// Of two calls at one time, either may have been the last.
		if overlapped {
			floor.most = max(floor.most, b.floor.most)
		}
		floor.at, floor.start = max(floor.at, b.floor.at), max(floor.start, b.floor.start)
	}

	b.floor, b.floorKnown = floor, true
}

// forgetBalances drops the lower bounds of a bucket.
func (e *endurance) forgetBalances(entity, resource string) {
	for k, b := range e.books {
		if k.entity == entity && k.resource == resource {
			b.floorKnown = false
		}
	}
}
