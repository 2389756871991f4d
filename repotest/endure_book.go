package repotest

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

type accountLimit struct{ entity, resource, limit string }

// book is what an endurance run knows about one limit of a bucket.
type book struct {
	ledger  *bucket.Ledger // nil until the next admission
	least   int64          // whole tokens that were surely consumed, net
	largest int64          // the latest time passed to a call about it

	// The bucket holds at least floor thousandths at floorAt, if floorKnown.
	floor, floorAt int64
	floorKnown     bool
	credited       int64 // the latest time at which something may have been given back
}

// restart begins a new history: a limit that joins its bucket is full.
func (b *book) restart() { b.ledger, b.floorKnown = nil, false }

// give books what may be given back.
func (b *book) give(n int64) {
	b.credited = max(b.credited, b.largest)
	b.least -= n
	if b.ledger != nil { // a new one begins full, whatever this does
		b.ledger.Give(b.largest, n*bucket.Milli)
	}
}

// take books what was surely taken.
func (b *book) take(n int64) {
	b.least += n
	if b.ledger != nil {
		b.ledger.Take(b.largest, n*bucket.Milli)
	}
}

// book returns the book of one limit, at a time that has been passed to a call.
func (e *endurance) book(now int64, account *limiter.Account, limit string) *book {
	k := accountLimit{account.Entity, account.Resource, limit}
	if e.books[k] == nil {
		e.books[k] = &book{}
	}
	e.books[k].largest = max(e.books[k].largest, now)
	return e.books[k]
}

// find returns a limit in force.
func (e *endurance) find(name string) (limiter.Limit, bool) {
	i := slices.IndexFunc(e.limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return limiter.Limit{}, false
	}
	return e.limits[i], true
}

// admitted checks a charge against the promise.
func (e *endurance) admitted(now int64, account *limiter.Account, amounts limiter.Amounts) {
	e.Helper()
	for limit, n := range amounts.All() {
		b := e.book(now, account, limit)
		b.least += n
		l, inForce := e.find(limit)
		if !inForce || b.largest < e.after[limit] {
			continue
		}
		if b.ledger == nil {
			b.ledger = bucket.NewLedger(rateOf(l))
		}
		allowed := int64(e.slack*float64(l.Capacity*bucket.Milli)) + bucket.Accrued(0, skew.Milliseconds(), rateOf(l)) + 1
		if excess := b.ledger.Admit(b.largest, n*bucket.Milli); excess > allowed {
			e.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, account.Entity, account.Resource, excess)
		}
	}
}

// shown checks the balances that refused a charge against what the bucket surely
// holds, and learns from those of an admission.
func (e *endurance) shown(now int64, b limiter.Bucket, amounts limiter.Amounts, admitted bool) {
	e.Helper()
	for i, l := range b.Account.Limits {
		bk := e.book(now, b.Account, l.Name)
		if inForce, ok := e.find(l.Name); !ok || inForce != l || bk.largest < e.after[l.Name] {
			bk.floorKnown = false
			continue
		}
		if admitted {
			bk.learn(now, b.Tokens[i], e.overlapped)
			continue
		}
		n, named := amounts.Lookup(l.Name)
		if !named || b.Tokens[i] >= n*bucket.Milli {
			continue // it is not the reason
		}
		if e.lossy || e.calling || !bk.floorKnown || now < bk.credited+maxRefusalAge {
			continue // something may have been taken since, or not be known yet
		}
		floor := bucket.Advance(bk.floor, bk.floorAt, now, rateOf(l)) - bucket.Accrued(0, skew.Milliseconds(), rateOf(l)) - 1
		if b.Tokens[i] < floor {
			e.fail("%s of %s and %s: a refusal shows %d thousandths, but the bucket holds at least %d", l, b.Account.Entity, b.Account.Resource, b.Tokens[i], floor)
		}
	}
}

// maxRefusalAge is for how long, in milliseconds, a client may refuse by what it
// remembers, whatever was given back since.
const maxRefusalAge = 1000 + 2*int64(skew/1e6)

// learn takes over what an admission left. If the call overlapped another, the
// lower of both balances is the safe one.
func (b *book) learn(now, tokens int64, overlapped bool) {
	if overlapped && !b.floorKnown {
		return // the other may have made it unknown
	}
	if overlapped {
		tokens = min(tokens, b.floor)
	}
	b.floor, b.floorAt, b.floorKnown = tokens, max(now, b.floorAt), true
}

// unknown drops what is known of the balances of a bucket.
func (e *endurance) unknown(entity, resource string) {
	for k, b := range e.books {
		if k.entity == entity && k.resource == resource {
			b.floorKnown = false
		}
	}
}
