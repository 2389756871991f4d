package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// promise checks every admission of a history against the limits. It keeps a
// ledger for each limit of each bucket, in the bucket's own time: the latest
// now of the calls that wrote to it.
type promise struct{ accounts map[accountKey]*bucketHistory }

type accountKey struct {
	in               *pair
	entity, resource string
}

func keyOf(in *pair, a *limiter.Account) accountKey { return accountKey{in, a.Entity, a.Resource} }

// bucketHistory is a bucket as its outcomes show it.
type bucketHistory struct {
	at      int64
	idle    int64                    // lifetime of an idle bucket
	limits  map[string]limiter.Limit // stored with the bucket
	ledgers map[string]*bucket.Ledger
	unsure  bool // it is due for a repair, which even a failing call may make
}

func newPromise() *promise { return &promise{accounts: map[accountKey]*bucketHistory{}} }

// expectRepair notes that limits have changed.
func (p *promise) expectRepair(in *pair) {
	for key, w := range p.accounts {
		if key.in == in {
			w.unsure = true
		}
	}
}

// forget drops the buckets of a deleted entity. They start again.
func (p *promise) forget(in *pair, entity string) {
	for key := range p.accounts {
		if key.in == in && key.entity == entity {
			delete(p.accounts, key)
		}
	}
}

// outcome records the effect of a Consume on both payers.
func (p *promise) outcome(h *history, now time.Time, charge limiter.Charge, got answer, err error) {
	if err != nil {
		// A failed call may have repaired a bucket, so its history ends.
		for _, entity := range []string{charge.Entity, h.cascadeParent(charge.Entity)} {
			key := accountKey{h.where, entity, charge.Resource}
			if w := p.accounts[key]; w != nil && w.unsure {
				delete(p.accounts, key)
			}
		}
		return
	}
	for _, b := range []balance{got.Self, got.Parent} {
		if b.Entity != "" {
			p.enter(h, now.UnixMilli(), charge, b, got.Admitted)
		}
	}
}

func (p *promise) enter(h *history, now int64, charge limiter.Charge, b balance, admitted bool) {
	key := accountKey{h.where, b.Entity, b.Resource}
	w := p.accounts[key]
	if w == nil || w.expired(now) {
		delete(p.accounts, key)
		if !admitted || charge.Limits != nil || !pays(b.Limits, charge.Amounts) {
			return // an override hides the limits of the bucket, and a charge without its limits does not create it
		}
		w = &bucketHistory{at: now, limits: map[string]limiter.Limit{}, ledgers: map[string]*bucket.Ledger{}}
		p.accounts[key] = w
	}
	at := max(now, w.at)
	if charge.Limits == nil {
		w.follow(at, b.Limits)
	} else {
		w.unsure = true // the next repair drops limits that only the override has
	}
	if !admitted {
		return
	}
	if charge.Limits == nil && !pays(b.Limits, charge.Amounts) {
		return // the charge does not write the bucket
	}
	for _, l := range b.Limits {
		w.add(l)
		if excess := w.admit(at, l, charge); excess > 0 {
			h.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, b.Entity, b.Resource, excess)
		}
	}
	w.at = at
}

// synced records that a bucket has taken over new limits without a charge.
func (p *promise) synced(h *history, at time.Time, account *limiter.Account) {
	w := p.accounts[keyOf(h.where, account)]
	if w == nil {
		return
	}
	if w.expired(at.UnixMilli()) {
		delete(p.accounts, keyOf(h.where, account))
		return
	}
	w.follow(max(at.UnixMilli(), w.at), account.Limits)
}

// pays reports whether any amount is for one of the limits.
func pays(limits []limiter.Limit, amounts limiter.Amounts) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool {
		_, named := amounts.Lookup(l.Name)
		return named
	})
}

// follow replaces the ledgers by those of the current limits. If the limits
// changed, the bucket was repaired at that time.
func (w *bucketHistory) follow(at int64, limits []limiter.Limit) {
	now := map[string]limiter.Limit{}
	for _, l := range limits {
		now[l.Name] = l
		switch {
		case w.add(l):
			w.at = at
		case w.limits[l.Name] != l:
			w.ledgers[l.Name].Change(at, rateOf(l), false)
			w.at = at
		}
	}
	for name := range w.limits {
		if _, still := now[name]; !still {
			delete(w.ledgers, name) // a limit that comes back begins full
			w.at = at
		}
	}
	w.limits, w.unsure = now, false
	w.idle = idleTime(limits)
}

// idleTime returns the lifetime of an idle bucket that can expire. Limits that
// join with an override do not count.
func idleTime(limits []limiter.Limit) int64 {
	const idleFills = 7
	var longest int64
	for _, l := range limits {
		longest = max(longest, bucket.FillTime(rateOf(l)))
	}
	return max(bucket.Milli, idleFills*longest)
}

// add adds a limit that the bucket does not have yet, which begins full. It
// reports whether the limit is new.
func (w *bucketHistory) add(l limiter.Limit) bool {
	_, known := w.limits[l.Name]
	if !known {
		w.limits[l.Name], w.ledgers[l.Name] = l, bucket.NewLedger(rateOf(l))
	}
	return !known
}

// admit enters an admission in the ledger of one limit. An override refills by
// its own rate up to the time of the call, under the bucket's own capacity. A
// limit that the charge does not name may be in debt, so no window of it ends
// here.
func (w *bucketHistory) admit(at int64, l limiter.Limit, charge limiter.Charge) (excess int64) {
	own, ledger := w.limits[l.Name], w.ledgers[l.Name]
	if charge.Limits != nil {
		r := rateOf(l)
		r.Capacity = own.Capacity * bucket.Milli
		ledger.Change(w.at, r, false)
		defer ledger.Change(at, rateOf(own), false)
	}
	n, named := charge.Amounts.Lookup(l.Name)
	if !named {
		ledger.Take(at, 0)
		return 0
	}
	return ledger.Admit(at, n*bucket.Milli)
}

// expired reports whether the bucket may have expired by now. If it was full,
// it begins again, and so does its history. This hides no violation, since a
// window that begins with a restart allows no more than any other.
func (w *bucketHistory) expired(now int64) bool { return now-w.at >= w.idle }

// credit records tokens that were given back or taken later.
func (p *promise) credit(l *lease, now time.Time, amounts limiter.Amounts) {
	key := keyOf(l.in, l.accounts[0])
	w := p.accounts[key]
	if w == nil || w != l.watched || w.expired(now.UnixMilli()) {
		delete(p.accounts, key) // the lease may belong to an expired bucket, so its effect is unknown
		return
	}
	at := max(w.at, now.UnixMilli())
	for limit, n := range amounts.All() {
		ledger := w.ledgers[limit]
		if ledger == nil || n == 0 {
			continue
		}
		if w.at = at; n > 0 {
			ledger.Give(at, n*bucket.Milli)
		} else {
			ledger.Take(at, -n*bucket.Milli)
		}
	}
}

func rateOf(l limiter.Limit) bucket.Rate {
	return bucket.RateOf(l.Capacity, l.Refill, l.Period)
}
