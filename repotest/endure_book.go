package repotest

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

type accountLimit struct{ entity, resource, limit string }

// book holds what is known about one limit of a bucket.
type book struct {
	ledger  *bucket.Ledger // nil until the next admission
	rate    bucket.Rate    // of the ledger, without what is held
	least   int64          // lower bound of the net consumption, in whole tokens
	largest int64          // the latest time passed to a call for it

	// The bucket holds at least floor thousandths at floorAt, if floorKnown.
	floor, floorAt int64
	floorKnown     bool
	credited       int64 // the latest time of a possible give-back
	recent         []giveBack
	windows        *windowBook // nil until a quota is charged
}

// giveBack is a number of whole tokens that may have been given back.
type giveBack struct{ at, tokens int64 }

// restart begins a new history. A limit that joins its bucket is full.
func (b *book) restart() { b.ledger, b.floorKnown, b.windows = nil, false, nil }

// give books tokens that may be given back. A store may hold them for hold
// milliseconds before it spends them.
func (b *book) give(n, hold int64) {
	b.credited = max(b.credited, b.largest)
	b.least -= n
	if hold > 0 {
		b.recent = append(b.recent, giveBack{b.largest, n})
	}
	if b.ledger != nil { // a new ledger begins full anyway
		b.open(hold)
		b.ledger.Give(b.largest, n*bucket.Milli)
	}
}

// open begins a window at the latest time. A store that holds tokens may spend in
// it what was given back up to hold before.
func (b *book) open(hold int64) {
	b.recent = slices.DeleteFunc(b.recent, func(g giveBack) bool { return g.at < b.largest-hold })
	if hold == 0 {
		return
	}
	rate := b.rate
	for _, g := range b.recent {
		rate.Capacity += g.tokens * bucket.Milli
	}
	b.ledger.Change(b.largest, rate, false)
}

// take books tokens that were surely taken, which no limit bounds. If they put the
// bucket into debt, it admits nothing, but a client may spend what it holds.
func (b *book) take(n int64, held bool) {
	b.least += n
	if b.ledger != nil && !held {
		b.ledger.Take(b.largest, n*bucket.Milli)
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

// checkAdmission checks that a charge fits the limits.
func (e *endurance) checkAdmission(now int64, b limiter.Bucket, amounts limiter.Amounts) {
	e.Helper()
	for limit, n := range amounts.All() {
		bk, i := e.book(now, b.Account, limit), indexOf(b.Account.Limits, limit)
		bk.least += n
		l, inForce := e.find(limit)
		if e.spares(b, i, n) || !inForce || bk.largest < e.after[limit] {
			continue
		}
		e.checkShadow(b, i)
		if l.IsQuota() {
			e.checkWindow(bk, l, b, i, n)
			continue
		}
		if bk.ledger == nil {
			bk.ledger, bk.rate = bucket.NewLedger(rateOf(l)), rateOf(l)
		}
		bk.open(e.holds())
		allowed := int64(e.slack*float64(l.Capacity*bucket.Milli)) + bucket.Accrued(0, skew.Milliseconds(), rateOf(l)) + 1
		if excess := bk.ledger.Admit(bk.largest, n*bucket.Milli); excess > allowed {
			e.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, b.Account.Entity, b.Account.Resource, excess)
		}
	}
}

// checkBalances checks the balances of a refusal against the lower bounds of
// the bucket. It takes new lower bounds from an admission.
func (e *endurance) checkBalances(now int64, b limiter.Bucket, amounts limiter.Amounts, admitted bool) {
	e.Helper()
	for i, l := range b.Account.Limits {
		bk := e.book(now, b.Account, l.Name)
		if inForce, ok := e.find(l.Name); !ok || inForce != l || bk.largest < e.after[l.Name] {
			bk.floorKnown = false
			continue
		}
		if admitted {
			seen := now
			if l.IsQuota() && b.Detail != nil { // the tokens may belong to a later window
				seen = max(now, b.Detail.Starts[i])
			}
			bk.setFloor(seen, b.Tokens[i], e.overlapped)
			continue
		}
		n, named := amounts.Lookup(l.Name)
		if !named || b.Tokens[i] >= n*bucket.Milli {
			continue // another limit refused
		}
		if e.lossy || e.calling || !bk.floorKnown || now < bk.credited+maxRefusalAge {
			continue // tokens may have been taken since, or a cached refusal may apply
		}
		if w := rateOf(l).Window; w != nil && now < w.Start(bk.floorAt)+maxRefusalAge {
			continue // as after tokens that were given back
		}
		floor := bucket.Advance(bk.floor, bk.floorAt, now, rateOf(l)) - bucket.Accrued(0, skew.Milliseconds(), rateOf(l)) - 1
		if b.Tokens[i] < floor {
			e.fail("%s of %s and %s: a refusal shows %d thousandths, but the bucket holds at least %d", l, b.Account.Entity, b.Account.Resource, b.Tokens[i], floor)
		}
	}
}

// maxRefusalAge is how long, in milliseconds, a client may refuse from its
// cache after tokens were given back, or a window began.
const maxRefusalAge = 1000 + 2*int64(skew/1e6)

// setFloor takes the balance after an admission as a lower bound. If the call
// overlapped another, the smaller balance is safe.
func (b *book) setFloor(now, tokens int64, overlapped bool) {
	if overlapped && !b.floorKnown {
		return // the other call may have made it unknown
	}
	if overlapped {
		tokens = min(tokens, b.floor)
	}
	b.floor, b.floorAt, b.floorKnown = tokens, max(now, b.floorAt), true
}

// forgetBalances drops the lower bounds of a bucket.
func (e *endurance) forgetBalances(entity, resource string) {
	for k, b := range e.books {
		if k.entity == entity && k.resource == resource {
			b.floorKnown = false
		}
	}
}
