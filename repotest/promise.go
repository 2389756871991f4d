package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// promise holds every admission of a history against what limits allow. It
// keeps a ledger for each limit of each bucket, in terms of the bucket's own
// time: the latest now of the calls that wrote to it.
type promise struct{ accounts map[accountKey]*watched }

type accountKey struct {
	in               *pair
	entity, resource string
}

func keyOf(in *pair, a *limiter.Account) accountKey { return accountKey{in, a.Entity, a.Resource} }

// watched is one bucket as its outcomes show it.
type watched struct {
	at      int64
	idle    int64                    // how long it stays when it is not written
	limits  map[string]limiter.Limit // stored with the bucket
	ledgers map[string]*bucket.Ledger
	unsure  bool // it is due for a repair, which a call may do that then fails
}

func newPromise() *promise { return &promise{accounts: map[accountKey]*watched{}} }

// unsure is said after facts changed.
func (p *promise) unsure(in *pair) {
	for key, w := range p.accounts {
		if key.in == in {
			w.unsure = true
		}
	}
}

// forget is said after an entity was deleted: its buckets begin anew.
func (p *promise) forget(in *pair, entity string) {
	for key := range p.accounts {
		if key.in == in && key.entity == entity {
			delete(p.accounts, key)
		}
	}
}

// outcome enters what a Consume did to both payers.
func (p *promise) outcome(h *history, now time.Time, charge limiter.Charge, got answer, err error) {
	if err != nil {
		// It may have repaired a bucket and then failed: that history is over.
		for _, entity := range []string{charge.Entity, h.parentOf(charge.Entity)} {
			key := accountKey{h.where, entity, charge.Resource}
			if w := p.accounts[key]; w != nil && w.unsure {
				delete(p.accounts, key)
			}
		}
		return
	}
	for _, b := range []balance{got.Self, got.Parent} {
		if b.Entity != "" {
			p.entered(h, now.UnixMilli(), charge, b, got.Admitted)
		}
	}
}

func (p *promise) entered(h *history, now int64, charge limiter.Charge, b balance, admitted bool) {
	key := accountKey{h.where, b.Entity, b.Resource}
	w := p.accounts[key]
	if w == nil || w.over(now) {
		delete(p.accounts, key)
		if !admitted || charge.Limits != nil || !pays(b.Limits, charge.Amounts) {
			return // an override does not show the bucket's own limits, and one that pays nothing may be older than this
		}
		w = &watched{at: now, limits: map[string]limiter.Limit{}, ledgers: map[string]*bucket.Ledger{}}
		p.accounts[key] = w
	}
	at := max(now, w.at)
	if charge.Limits == nil {
		w.follow(at, b.Limits)
	} else {
		w.unsure = true // limits that only the override has are dropped by the next repair
	}
	if !admitted {
		return
	}
	if charge.Limits == nil && !pays(b.Limits, charge.Amounts) {
		return // it is not touched
	}
	for _, l := range b.Limits {
		w.add(l)
		if excess := w.enter(at, l, charge); excess > 0 {
			h.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, b.Entity, b.Resource, excess)
		}
	}
	w.at = at
}

// synced enters that a bucket follows limits from a time on, without a charge.
func (p *promise) synced(h *history, at time.Time, account *limiter.Account) {
	w := p.accounts[keyOf(h.where, account)]
	if w == nil {
		return
	}
	if w.over(at.UnixMilli()) {
		delete(p.accounts, keyOf(h.where, account))
		return
	}
	w.follow(max(at.UnixMilli(), w.at), account.Limits)
}

// pays tells whether any amount is for one of the limits.
func pays(limits []limiter.Limit, amounts limiter.Amounts) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool {
		_, named := amounts.Lookup(l.Name)
		return named
	})
}

// follow makes the ledgers those of the limits in force. The bucket was
// repaired at that time if they changed.
func (w *watched) follow(at int64, limits []limiter.Limit) {
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
			delete(w.ledgers, name) // if it comes back it begins full
			w.at = at
		}
	}
	w.limits, w.unsure = now, false
	w.idle = idleTime(limits)
}

// idleTime is how long a bucket stays, unless it stays for ever. Limits that
// join with an override do not count.
func idleTime(limits []limiter.Limit) int64 {
	const idleFills = 7
	var longest int64
	for _, l := range limits {
		longest = max(longest, bucket.FillTime(rateOf(l)))
	}
	return max(bucket.Milli, idleFills*longest)
}

// add is a limit that the bucket may not have had, and so begins full. It tells
// whether it is one.
func (w *watched) add(l limiter.Limit) bool {
	_, known := w.limits[l.Name]
	if !known {
		w.limits[l.Name], w.ledgers[l.Name] = l, bucket.NewLedger(rateOf(l))
	}
	return !known
}

// enter is an admission as one limit sees it. An override refills by its own
// rate up to the time of the call, under the bucket's own capacity. A limit the
// charge does not name may be in debt: no window of it ends here.
func (w *watched) enter(at int64, l limiter.Limit, charge limiter.Charge) (excess int64) {
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

// over tells whether the bucket may have expired by now: if it was full, it
// begins anew, and so does its history. Nothing slips through, since a window
// that begins with a restart allows no more than any other.
func (w *watched) over(now int64) bool { return now-w.at >= w.idle }

// credit enters what was given back or taken later.
func (p *promise) credit(l *lease, now time.Time, amounts limiter.Amounts) {
	key := keyOf(l.in, l.accounts[0])
	w := p.accounts[key]
	if w == nil || w != l.watched || w.over(now.UnixMilli()) {
		delete(p.accounts, key) // the lease may be one of a bucket that is gone: nobody can tell what it did
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
