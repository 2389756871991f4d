package repotest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// set replaces the possibilities for a limit. If there are too many, the next balance
// decides.
func (r *record) set(name string, tallies []tally) {
	var distinct []tally
	for _, t := range tallies {
		if !slices.Contains(distinct, t) {
			distinct = append(distinct, t)
		}
	}

	if len(distinct) > maxTallies {
		distinct = nil
	}
	r.limits[name] = distinct
}

// each replaces each possibility for a limit by those that follow from it.
func (r *record) each(name string, next func(tally) []tally) {
	var all []tally
	for _, t := range r.limits[name] {
		all = append(all, next(t)...)
	}

	r.set(name, all)
}

// clone returns a copy.
func (r *record) clone() *record {
	c := *r
	c.limits = maps.Clone(r.limits)
	return &c
}

// mayBe adds the possibility that the bucket is what another record says.
func (r *record) mayBe(other *record) {
	r.at, r.keep, r.idle = min(r.at, other.at), min(r.keep, other.keep), min(r.idle, other.idle)

	for name, tallies := range r.limits {
		if others := other.limits[name]; len(tallies) == 0 || len(others) == 0 {
			// It may be anything, or missing.
			r.limits[name] = nil
		} else {
			r.set(name, append(slices.Clone(tallies), others...))
		}
	}
}

// text describes the possibilities for a limit, for a report.
func (r *record) text(name string) string {
	var s strings.Builder
	for _, t := range r.limits[name] {
		least, most := t.room()
		fmt.Fprintf(&s, "  it may be %s, away %v, with %d to %d left at %s", t.limit, t.away, least, most,
			stamp(time.UnixMilli(t.at).UTC()))

		if t.limit.IsQuota() {
			fmt.Fprintf(&s, " in the window of %s", stamp(time.UnixMilli(t.start).UTC()))
		}
		s.WriteString("\n")
	}
	return s.String()
}

// override enters a charge with limits of its own, which judge the call. A rate of the
// bucket refills by the rate of the override. A bucket may follow a quota of the
// override, as if its limits had changed. A limit that the bucket lacks joins it.
func (o *oracle) override(
	h *history, r *record, now int64, charge limiter.Charge, b balance, paid []int64, writes bool,
) {
	h.Helper()

	reshaped := false
	for i, view := range b.Limits {
		name := view.Name
		l := charge.Limits[indexOf(charge.Limits, name)]
		tallies, known := r.limits[name]
		// The limit joins the bucket full.
		if !known {
			tallies = []tally{o.unused(l, max(now, r.at), now)}
		}

		if known && len(tallies) == 0 {
			// What the bucket has is not known.
			reshaped = true
			continue
		}

		before := b.Tokens[i] + paid[i]
		var after []tally
		most := int64(math.MinInt64)
		for _, t := range tallies {
			for _, judged := range o.overridden(t, l, r.keep, now) {
				left := judged.most(l)
				most = max(most, left)
				// The smaller capacity judges, so the balance may be below what
				// the bucket holds, and never above.
				if before > left {
					continue
				}

				reshaped = reshaped || judged.follows

				switch {
				case writes:
					after = append(after, judged.take(paid[i]))
				// The call writes nothing, but the bucket may follow another
				// quota all the same.
				case judged.follows:
					after = append(after, t, judged.tally)
				default:
					after = append(after, t)
				}
			}
		}

		if after == nil {
			h.fail(
				"%s of %s and %s: it holds %d thousandths for an override %s, more than the limits allow: at "+
					"most %d\n%s",
				name, b.Entity, b.Resource, before, l, most, r.text(name),
			)
		}

		if known || writes {
			r.set(name, after)
		}
	}

	switch {
	case writes:
		o.touch(r, now)
	// The bucket may follow an override that it refused. That is a write, which
	// refills the rates by the override.
	case reshaped:
		for name := range r.limits {
			if i := indexOf(charge.Limits, name); i >= 0 && !charge.Limits[i].IsQuota() {
				r.each(name, func(t tally) []tally {
					if t.limit.IsQuota() {
						return []tally{t}
					}
					return []tally{t, t.refilled(charge.Limits[i], now)}
				})
			}
		}

		o.mayTouch(r, now)
	}
}

// overriddenTally is what a limit of a bucket is to an override.
type overriddenTally struct {
	tally
	follows bool // the bucket has taken over the limit
}

// most returns the most that is left for a charge that a limit judges too.
func (t overriddenTally) most(l limiter.Limit) int64 {
	_, most := t.room()

	if own := t.limit; own.IsQuota() && l.IsQuota() && windowOf(own) == windowOf(l) {
		// What is used of the window counts for both quotas.
		most = min(most, capacityOf(l)-t.least)
	}

	return min(most, capacityOf(l))
}

// overridden returns the tallies by which an override may judge a limit of a bucket that
// is kept until a time.
func (o *oracle) overridden(t tally, l limiter.Limit, keep, now int64) (all []overriddenTally) {
	// A limit that has left joins again.
	if t.away {
		for _, joined := range o.changed(t, l, keep, now) {
			all = append(all, overriddenTally{o.later(joined, now), true})
		}
		if o.mayForget(t, keep, now) {
			all = append(all, overriddenTally{o.unused(l, max(now, t.at), now), true})
		}
	}

	if !t.limit.IsQuota() && !l.IsQuota() {
		return append(all, overriddenTally{t.refilled(l, now), false})
	}

	all = append(all, overriddenTally{o.later(t, now), false})
	// A bucket that follows an override keeps the flag of its own limit.
	l.IsShadow = t.limit.IsShadow
	if l != t.limit {
		for _, followed := range o.changed(t, l, keep, now) {
			all = append(all, overriddenTally{o.later(followed, now), true})
		}
	}

	return all
}

// synced records that a bucket has taken over new limits without a charge, or may have
// if the answer was lost.
func (o *oracle) synced(h *history, at time.Time, b limiter.Bucket, sure bool) {
	r := o.records[keyOf(h.where, b.Account)]
	if r == nil {
		return
	}

	now := at.UnixMilli()
	if before := r.clone(); !sure {
		defer func() { r.mayBe(before) }()
	}

	switch repaired, unsure := o.follow(r, now, b.Account.Limits, o.mayExpire(r, now)); {
	case repaired:
		o.touch(r, now)
	case unsure:
		o.mayTouch(r, now)
	}
}

// fill records a reset or a top-up, after which b is listed.
func (o *oracle) fill(h *history, at time.Time, f limiter.Fill, b limiter.Bucket) {
	h.Helper()
	r := o.records[keyOf(h.where, b.Account)]
	if r == nil {
		return
	}

	now := at.UnixMilli()
	// A fill first updates the bucket to changed limits, as a charge does.
	o.mayExpire(r, now)
	_, _ = o.follow(r, now, b.Account.Limits, false)
	o.touch(r, now)

	for name := range r.limits {
		n, named := f.Amounts.Lookup(name)
		reset := f.ID == "" && (len(f.Limits) == 0 || slices.Contains(f.Limits, name))

		r.each(name, func(t tally) []tally {
			switch {
			case f.ID != "" && named:
				return []tally{t.give(n * milli)}
			// A limit that has left may be forgotten, and then comes back full.
			case reset && t.away:
				return []tally{t, o.reset(t, t.start)}
			// The quota stays in a window that has begun, or returns to that of
			// the call.
			case reset:
				return []tally{o.reset(t, t.start), o.reset(t, o.start(windowOf(t.limit), now))}
			}
			return []tally{t}
		})
	}

	// A reset of all limits leaves the bucket as if it were new.
	if f.ID == "" && len(f.Limits) == 0 {
		r.keep = math.MinInt64
	}

	listed := balanceOf(b, false)
	for i := range listed.Limits {
		o.observe(h, r, now, listed, i, listed.Tokens[i], true)
	}
}

// reset returns the tally of a limit that is full again, in a window.
func (o *oracle) reset(t tally, start int64) tally {
	t.least, t.most = 0, 0
	if t.limit.IsQuota() {
		t.start, t.peakLeast = start, capacityOf(t.limit)
		t.hiddenLeast, t.hiddenMost = 0, 0
	}
	return t
}

// credit records tokens that were given back or taken later. The amounts of spared
// limits changed the usage alone.
func (o *oracle) credit(h *history, l *lease, now time.Time, amounts limiter.Amounts, spared []string) {
	at, key := now.UnixMilli(), keyOf(l.in, l.accounts[0])
	r := o.records[key]
	// The charge has made no bucket, but the credit may.
	if r == nil {
		r = &record{at: at, limits: map[string][]tally{}, keep: math.MinInt64}
		o.records[key] = r
	}

	o.mayExpire(r, at)
	// The bucket may be another one than that of the lease.
	unsure := r != l.record || r.expiry != l.expiry

	touches, mayTouch := false, false
	for name, n := range amounts.All() {
		// A limit of the charge owes what the credit takes, even if the bucket
		// has forgotten it. If the charge spared the limit, only the usage
		// changes.
		charged := indexOf(l.accounts[0].Limits, name)
		owes := n < 0 && charged >= 0 && !slices.Contains(spared, name)
		// A bucket forgets a limit that is full, so it lacks only what the
		// credit takes.
		forgotten := func() tally {
			t := o.unused(l.accounts[0].Limits[charged], max(at, r.at), at).take(-n * milli)
			t.away = true
			return t
		}

		_, known := r.limits[name]
		switch {
		case n == 0:
			continue
		// A forgotten limit was full, so a give-back adds nothing.
		case !known && !owes:
			continue
		// The debt may be in the bucket of the lease or in another one.
		case !known && unsure:
			r.limits[name], mayTouch = nil, true
			continue
		case !known:
			r.set(name, []tally{forgotten()})
			touches = true
			continue
		}

		// A limit about which nothing is known may change as well.
		mayTouch = mayTouch || len(r.limits[name]) == 0
		r.each(name, func(t tally) []tally {
			// A give-back to a limit that has left may come after it was
			// forgotten.
			sure := !unsure && (!t.away || owes)
			touches, mayTouch = touches || sure, mayTouch || !sure
			due := o.later(t, at)
			// The balance stays, but the write may refill it.
			if slices.Contains(spared, name) {
				return []tally{t, due}
			}

			next := []tally{due.give(n * milli)}
			if n < 0 {
				next[0] = due.take(-n * milli)
			}
			// The credit brings back a limit that the bucket has forgotten.
			if next[0].gone = false; owes && o.mayForget(t, r.keep, at) {
				next = append(next, forgotten())
			}

			if !sure {
				next = append(next, t, due)
			}
			return next
		})
	}

	switch {
	case touches:
		o.touch(r, at)
	case mayTouch:
		o.mayTouch(r, at)
	}

	if unsure {
		o.replaced(h, l, r, at, amounts, spared)
	}
}

// replaced adds the possibility that a credit takes from a new bucket, since that of
// the lease has expired. The new bucket has the limits in force, or those of the lease
// if no level holds any.
func (o *oracle) replaced(h *history, l *lease, r *record, now int64, amounts limiter.Amounts, spared []string) {
	inForce := h.inForce(balanceOf(limiter.Bucket{Account: l.accounts[0]}, false), l.accounts[0].Limits)

	r.idle = min(r.idle, idleTime(inForce))
	for _, in := range inForce {
		t := o.unused(in, now, now)
		// The bucket of the lease does not have the limit.
		if _, known := r.limits[in.Name]; !known {
			absent := t
			absent.away, absent.gone = true, true
			r.set(in.Name, []tally{absent})
		}

		if n := amounts.Get(in.Name); n < 0 && !slices.Contains(spared, in.Name) {
			t = t.take(-n * milli)
		}
		// Of a limit that may be anything, nothing more is known.
		if len(r.limits[in.Name]) > 0 {
			r.set(in.Name, append(r.limits[in.Name], t))
		}
	}
}
