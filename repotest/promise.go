package repotest

import (
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
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
	if _, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
		return // nothing was looked at
	}
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
		w.follow(now, at, b.Limits)
	} else {
		w.unsure = true // the next repair drops limits that only the override has
		if admitted || w.awaits(b, charge) {
			w.followOverride(now, at, charge.Limits, h.inForce(b, charge.Defaults))
		}
	}
	if !admitted {
		return
	}
	if charge.Limits == nil && !pays(b.Limits, charge.Amounts) {
		return // the charge does not write the bucket
	}
	for i, l := range b.Limits {
		w.add(l, now)
		if n, _ := charge.Amounts.Lookup(l.Name); b.spares(i) && b.Tokens[i] >= n*bucket.Milli {
			h.fail("%s of %s and %s: a charge of %d is spared, but the bucket holds %d thousandths", l, b.Entity, b.Resource, n, b.Tokens[i])
		}
		if excess := w.admit(now, at, l, charge, b.spares(i)); excess > 0 {
			h.fail("%s of %s and %s: a window that ends here admits %d thousandths more than the limits allow", l, b.Entity, b.Resource, excess)
		}
	}
	w.touch(now, at)
}

// synced records that a bucket has taken over new limits without a charge.
func (p *promise) synced(h *history, at time.Time, account *limiter.Account) {
	w := p.accounts[keyOf(h.where, account)]
	if w == nil {
		return
	}
	now := at.UnixMilli()
	if w.expired(now) {
		delete(p.accounts, keyOf(h.where, account))
		return
	}
	w.follow(now, max(now, w.at), account.Limits)
}

// fill records a reset or a top-up, after which b is listed.
func (p *promise) fill(h *history, at time.Time, f limiter.Fill, b limiter.Bucket) {
	key := keyOf(h.where, b.Account)
	w := p.accounts[key]
	if w == nil {
		return
	}
	now := at.UnixMilli()
	if w.expired(now) {
		delete(p.accounts, key) // the bucket may be another one
		return
	}
	own := max(now, w.at)
	w.follow(now, own, b.Account.Limits)
	for name, ledger := range w.ledgers {
		l := w.limits[name]
		n, named := f.Amounts.Lookup(name)
		switch {
		case f.ID != "" && named:
			ledger.Give(timeOf(l, now, own), n*bucket.Milli)
		case f.ID == "" && (len(f.Limits) == 0 || slices.Contains(f.Limits, name)):
			ledger.Change(timeOf(l, now, own), rateOf(l), true)
		}
	}
	w.touch(now, own)
}

// touch records a write at the caller's time and the bucket's own: every quota that
// is due has stepped.
func (w *bucketHistory) touch(now, at int64) {
	for name, ledger := range w.ledgers {
		if w.limits[name].IsQuota() {
			ledger.Take(now, 0)
		}
	}
	w.at = at
}

// timeOf returns the time of an event for the ledger of a limit: the bucket's own
// for a rate, and the caller's for a quota.
func timeOf(l limiter.Limit, now, own int64) int64 {
	if l.IsQuota() {
		return now
	}
	return own
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
func (w *bucketHistory) follow(now, at int64, limits []limiter.Limit) {
	next, repaired := map[string]limiter.Limit{}, len(limits) != len(w.limits)
	for _, l := range limits {
		next[l.Name] = l
		old, known := w.limits[l.Name]
		repaired = repaired || old != l
		switch {
		case !known:
			w.add(l, now)
		case old != l:
			w.change(l, old, now, at)
		}
	}
	for name := range w.limits {
		if _, still := next[name]; !still {
			delete(w.ledgers, name) // a limit that comes back begins full
		}
	}
	w.limits, w.unsure = next, false
	w.idle = idleTime(limits)
	if repaired {
		w.touch(now, at)
	}
}

// followOverride enters quotas of an override that differ from those of the bucket,
// and that no limit in force holds. Steps that are due are taken, and a rate beside
// them has refilled by the override, whether or not the charge was admitted.
func (w *bucketHistory) followOverride(now, at int64, override, inForce []limiter.Limit) {
	followed := false
	for _, l := range override {
		old, known := w.limits[l.Name]
		l.IsShadow = old.IsShadow
		held := slices.ContainsFunc(inForce, func(held limiter.Limit) bool { return held.Name == l.Name })
		if !known || held || old == l || !old.IsQuota() && !l.IsQuota() {
			continue
		}
		w.ledgers[l.Name].Take(timeOf(old, now, at), 0)
		w.ledgers[l.Name].Change(timeOf(l, now, at), rateOf(l), false)
		w.limits[l.Name], followed = l, true
	}
	if !followed {
		return
	}
	for _, l := range override {
		if _, known := w.limits[l.Name]; known {
			w.admit(now, at, l, limiter.Charge{Limits: override}, false)
		}
	}
	w.touch(now, at)
}

// awaits reports whether a bucket follows an override that it refused: a limit that
// fills at other times than before does not cover its amount, and might.
func (w *bucketHistory) awaits(b balance, charge limiter.Charge) bool {
	for i, l := range b.Limits {
		n, named := charge.Amounts.Lookup(l.Name)
		old, known := w.limits[l.Name]
		changed := old.Window != l.Window || old.Zone != l.Zone
		if known && named && changed && n <= l.Capacity && b.Tokens[i] < n*bucket.Milli {
			return true
		}
	}
	return false
}

// change enters a change of one limit into its ledger. What a rate has gained by the
// bucket's own time stays if it becomes a quota, which begins at the caller's.
func (w *bucketHistory) change(l, old limiter.Limit, now, at int64) {
	ledger := w.ledgers[l.Name]
	if !old.IsQuota() {
		ledger.Take(at, 0)
	}
	ledger.Change(timeOf(l, now, at), rateOf(l), false)
}

// idleTime returns the lifetime of an idle bucket that can expire. Limits that
// join with an override do not count, and neither do quotas.
func idleTime(limits []limiter.Limit) int64 {
	const idleFills = 7
	var longest int64
	for _, l := range limits {
		if !l.IsQuota() {
			longest = max(longest, bucket.FillTime(rateOf(l)))
		}
	}
	return max(bucket.Milli, idleFills*longest)
}

// add adds a limit that the bucket does not have yet, which begins full, a quota in
// the window of now.
func (w *bucketHistory) add(l limiter.Limit, now int64) {
	if _, known := w.limits[l.Name]; known {
		return
	}
	ledger := bucket.NewLedger(rateOf(l))
	if l.IsQuota() {
		ledger.Change(now, rateOf(l), true)
	}
	w.limits[l.Name], w.ledgers[l.Name] = l, ledger
}

// admit enters an admission in the ledger of one limit. An override refills a rate
// by its own rate up to the time of the call, under the bucket's own capacity. A
// limit that the charge does not name or that it spared may be in debt, so no
// window of it ends here.
func (w *bucketHistory) admit(now, at int64, l limiter.Limit, charge limiter.Charge, spared bool) (excess int64) {
	own, ledger := w.limits[l.Name], w.ledgers[l.Name]
	if charge.Limits != nil && !own.IsQuota() && !l.IsQuota() {
		r := rateOf(l)
		r.Capacity = own.Capacity * bucket.Milli
		ledger.Change(w.at, r, false)
		defer ledger.Change(at, rateOf(own), false)
	}
	n, named := charge.Amounts.Lookup(l.Name)
	if !named || spared {
		ledger.Take(timeOf(own, now, at), 0)
		return 0
	}
	return ledger.Admit(timeOf(own, now, at), n*bucket.Milli)
}

// expired reports whether the bucket may have expired by now: it is idle, and may
// be full. Then it begins again, and so does its history. This hides no violation,
// since every window that is open allows the capacity, like one that begins.
func (w *bucketHistory) expired(now int64) bool {
	if now-w.at < w.idle {
		return false
	}
	for _, ledger := range w.ledgers {
		if !ledger.Full(now) {
			return false
		}
	}
	return true
}

// tookMore reports whether an account was charged under a higher capacity of a quota.
func tookMore(of *limiter.Account, l limiter.Limit) bool {
	return l.IsQuota() && slices.ContainsFunc(of.Limits, func(was limiter.Limit) bool {
		return was.Name == l.Name && was.IsQuota() && was.Capacity > l.Capacity
	})
}

// credit records tokens that were given back or taken later. The amounts of spared
// limits changed the usage alone.
func (p *promise) credit(l *lease, now time.Time, amounts limiter.Amounts, spared []string) {
	key := keyOf(l.in, l.accounts[0])
	w := p.accounts[key]
	if w == nil || w != l.watched || w.expired(now.UnixMilli()) {
		delete(p.accounts, key) // the lease may belong to an expired bucket, so its effect is unknown
		return
	}
	at, changed := max(w.at, now.UnixMilli()), false
	for limit, n := range amounts.All() {
		ledger := w.ledgers[limit]
		if ledger == nil || n == 0 {
			continue
		}
		changed = true
		switch own := timeOf(w.limits[limit], now.UnixMilli(), at); {
		case slices.Contains(spared, limit):
		case n > 0 && tookMore(l.accounts[0], w.limits[limit]):
			ledger.Repay(own, n*bucket.Milli)
		case n > 0:
			ledger.Give(own, n*bucket.Milli)
		default:
			ledger.Take(own, -n*bucket.Milli)
		}
	}
	if changed {
		w.touch(now.UnixMilli(), at)
	}
}

func rateOf(l limiter.Limit) bucket.Rate {
	r := bucket.RateOf(l.Capacity, l.Refill, l.Period)
	if l.IsQuota() {
		r.Window, _ = calendar.Load(calendar.Unit(l.Window), l.Zone)
	}
	return r
}
