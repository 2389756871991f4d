package repotest

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// oracle checks every answer of a history against what the limits promise. It counts
// the net use of each limit by itself, from the calls and their results, by its own
// arithmetic: it shares no code with the stores.
//
// Where a promise leaves a store a choice, or where a call has hidden what it did, the
// oracle follows all possibilities, and drops those that a later balance rules out. A
// balance that none explains is too high, so that the limit admits more than it
// allows, or too low, so that tokens are lost.
type oracle struct {
	*almanac
	records map[accountKey]*record
}

type accountKey struct {
	in               *pair
	entity, resource string
}

func keyOf(in *pair, a *limiter.Account) accountKey { return accountKey{in, a.Entity, a.Resource} }

// record is what the oracle knows about a bucket.
type record struct {
	at int64 // the time of the last write
	// limits holds for each name all possibilities, and none if a call has hidden
	// what the limit has.
	limits map[string][]tally
	// keep is the time before which the bucket does not expire, since limits
	// that it had would not have been full.
	keep int64
	// idle is how long it stays without a write, whatever limits an override
	// adds.
	idle   int64
	expiry int // how often it may have expired
}

func newOracle() *oracle { return &oracle{almanac: newAlmanac(), records: map[accountKey]*record{}} }

// maxTallies bounds the possibilities that the oracle follows for one limit.
const maxTallies = 24

// forget drops the buckets of a deleted entity. They start again.
func (o *oracle) forget(in *pair, entity string) {
	for key := range o.records {
		if key.in == in && key.entity == entity {
			delete(o.records, key)
		}
	}
}

// outcome enters the result of a Consume on all payers. A call that fails changes
// nothing.
func (o *oracle) outcome(h *history, now time.Time, charge limiter.Charge, got answer, err error) {
	h.Helper()
	if err != nil {
		return
	}

	short := got.Admitted
	for level, b := range got.Payers {
		// The limits of a call and its defaults end at the parent.
		if level == 2 {
			charge.Limits, charge.Defaults = nil, nil
		}
		short = o.enter(h, now.UnixMilli(), charge, b, got.Admitted) || short
	}

	// A refusal needs a limit that falls short. Otherwise the bucket has lost
	// tokens.
	if !short {
		h.fail("a charge of %s is refused, but the bucket holds at least as much: %v", charge.Amounts, got)
	}
}

// taken returns what a charge took of each limit of a payer. It reports whether a limit
// does not cover its amount.
func taken(h *history, charge limiter.Charge, b balance, admitted bool) (paid []int64, short bool) {
	h.Helper()

	paid = make([]int64, len(b.Limits))
	for i, l := range b.Limits {
		n, named := charge.Amounts.Lookup(l.Name)
		switch before := b.Tokens[i]; {
		case admitted && b.spares(i) && before >= n*milli:
			h.fail("%s of %s and %s: a charge of %d is spared, but the bucket holds %d thousandths", l, b.Entity,
				b.Resource, n, before)
		case admitted && named && !b.spares(i):
			// The outcome shows what is left after the payment, so an amount
			// that the limit did not cover leaves debt.
			paid[i] = n * milli

			if before < 0 {
				h.fail("%s of %s and %s: a charge of %d leaves %d thousandths, so it is more than the limits allow",
					l, b.Entity, b.Resource, n, before)
			}
		case named && before < n*milli && (!l.IsShadow || charge.Strict):
			short = true
		}
	}
	return paid, short
}

// enter enters the result for one payer. It reports whether a limit does not cover its
// amount.
func (o *oracle) enter(h *history, now int64, charge limiter.Charge, b balance, admitted bool) (short bool) {
	h.Helper()
	paid, short := taken(h, charge, b, admitted)

	key := accountKey{h.where, b.Entity, b.Resource}
	r, expired := o.records[key], false
	made := r == nil

	// A payer that has none of the named limits is not written, except by an
	// override, whose limits join the bucket.
	writes := admitted && (charge.Limits != nil || pays(b.Limits, charge.Amounts))

	if made {
		r = &record{at: now, limits: map[string][]tally{}, keep: math.MinInt64, idle: idleTime(b.Limits)}
		if admitted {
			o.records[key] = r
		}
	} else {
		expired = o.mayExpire(r, now)
	}

	// A credit whose effect is not known may have moved the bucket's own time, from
	// which a limit that joins it refills. The clocks bound how far.
	if b.Ahead > 0 && b.Ahead <= 2*maxSkew {
		r.at = max(r.at, now+b.Ahead.Milliseconds())
	}

	if charge.Limits != nil {
		// An expired bucket starts again with the limits of the override.
		if expired {
			r.idle = min(r.idle, idleTime(charge.Limits))
		}

		o.override(h, r, now, charge, b, paid, writes)
		return short
	}

	// Nothing is written, so a clock that is behind may still find the bucket
	// as it was.
	if expired && !writes {
		before := r.clone()
		defer func() { r.mayBe(before) }()
	}

	repaired, unsure := o.follow(r, now, b.Limits, expired && !writes)
	for i, l := range b.Limits {
		o.observe(h, r, now, b, i, b.Tokens[i]+paid[i], writes || repaired)
		r.each(l.Name, func(t tally) []tally { return []tally{t.take(paid[i])} })
	}

	switch {
	case admitted && !writes && made:
		// A store may make a bucket that pays nothing or not.
		o.mayMiss(r, now)
	case writes || repaired:
		o.touch(r, now)
	case unsure:
		o.mayTouch(r, now)
	}
	return short
}

// observe checks the balance of limit i before a charge, and drops the possibilities
// that do not agree with it. written reports whether the store has written the balance
// or has only shown it.
func (o *oracle) observe(h *history, r *record, now int64, b balance, i int, tokens int64, written bool) {
	h.Helper()

	l, start := b.Limits[i], int64(0)
	if b.Detail != nil && b.Detail.Starts != nil {
		start = b.Detail.Starts[i]
	}

	if l.IsQuota() && start != o.start(windowOf(l), start) {
		h.fail("%s of %s and %s: %d is not the start of a window", l, b.Entity, b.Resource, start)
	}

	if len(r.limits[l.Name]) == 0 {
		// A balance that is only shown is not stored. The next call may see
		// another one.
		if !written {
			return
		}

		r.limits[l.Name] = []tally{seen(l, capacityOf(l)-tokens, now+b.Ahead.Milliseconds(), start)}
		return
	}

	var agree []tally
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, t := range r.limits[l.Name] {
		view := o.later(t, now)
		if view.start != start {
			continue
		}

		from, to := view.room()
		least, most = min(least, from), max(most, to)

		if tokens < from || tokens > to {
			continue
		}
		// A balance that is only shown leaves the bucket's own time where it
		// was.
		if written {
			t = view
			t.least, t.most = capacityOf(l)-tokens, capacityOf(l)-tokens
		}

		agree = append(agree, t)
	}

	// If no possibility has this window, least is still above most.
	switch {
	case agree != nil:
		r.set(l.Name, agree)
	case tokens > most && most >= least:
		h.fail("%s of %s and %s: it holds %d thousandths, more than the limits allow: at most %d\n%s", l, b.Entity,
			b.Resource, tokens, most, r.text(l.Name))
	case most >= least:
		h.fail("%s of %s and %s: it holds %d thousandths, but the bucket holds at least %d\n%s", l, b.Entity,
			b.Resource, tokens, least, r.text(l.Name))
	default:
		h.fail("%s of %s and %s: its window begins at %s\n%s", l, b.Entity, b.Resource,
			stamp(time.UnixMilli(start).UTC()), r.text(l.Name))
	}
}

// follow gives a bucket the limits in force. It reports whether that surely changes
// the bucket, or may change it. A new limit starts full. A limit that leaves stays
// until it and those that it replaced would be full. Until then it joins again with
// what it has. If the bucket may be missing, a store may have nothing to repair.
func (o *oracle) follow(r *record, now int64, limits []limiter.Limit, missing bool) (repaired, unsure bool) {
	before := *r

	for _, l := range limits {
		if _, known := r.limits[l.Name]; !known {
			repaired = true
			// A new limit fills from the bucket's own time. That may be later
			// than the last known write, since some calls may have written.
			r.set(l.Name, []tally{o.unused(l, max(now, r.at), now), o.unused(l, max(now, r.latest()), now)})
			continue
		}

		old := r.limits[l.Name]
		// The bucket is surely kept until the earliest time that is possible,
		// and surely changes if every possibility does.
		keep, all := int64(math.MaxInt64), len(old) > 0
		// A call has hidden what the limit was.
		unsure = unsure || !all

		r.each(l.Name, func(t tally) []tally {
			if t.limit == l && !t.away {
				keep, all = math.MinInt64, false
				return []tally{t}
			}

			unsure = true
			if until := o.keptUntil(t, l); until > max(now, before.latest()) {
				keep = min(keep, until)
			} else {
				// The limit may be full already, and then keeps nothing.
				keep = math.MinInt64
			}

			next := o.changed(t, l, before.keep, now)
			// A limit that was forgotten comes back full.
			if o.mayForget(t, before.keep, now) {
				next = append(next, o.unused(l, max(now, r.at), now), o.unused(l, max(now, t.at), now))
			}

			return next
		})

		repaired = repaired || all

		if len(old) > 0 {
			r.keep = max(r.keep, keep)
		}
	}

	for name := range r.limits {
		if indexOf(limits, name) >= 0 {
			continue
		}

		left := len(r.limits[name]) > 0
		unsure = unsure || !left
		r.each(name, func(t tally) []tally {
			left, unsure = left && !t.away, unsure || !t.away
			t.away = true
			return o.mayForgetOne(t, before.keep, now)
		})
		repaired = repaired || left
	}

	// A store repairs a bucket that it finds, and this one may be gone.
	if missing {
		r.keep, r.idle = before.keep, min(r.idle, idleTime(limits))
		return false, repaired || unsure
	}

	if r.idle = min(r.idle, idleTime(limits)); repaired {
		r.idle = idleTime(limits)
	}
	return repaired, unsure
}

// mayForget reports whether a bucket that is kept until a time may have forgotten a
// limit: it has left and is full, and so would be those that it replaced.
func (o *oracle) mayForget(t tally, keep, now int64) bool {
	return t.away && o.later(t, now).least == 0 && (t.gone || now >= keep)
}

// mayForgetOne returns a tally, and that of a limit that the bucket has forgotten if that
// may be.
func (o *oracle) mayForgetOne(t tally, keep, now int64) []tally {
	if !o.mayForget(t, keep, now) {
		return []tally{t}
	}
	forgotten := t
	forgotten.gone = true
	return []tally{t, forgotten}
}

// latest returns the latest time that the bucket may have as its own.
func (r *record) latest() int64 {
	at := r.at
	for _, tallies := range r.limits {
		for _, t := range tallies {
			at = max(at, t.at)
		}
	}
	return at
}

// touch records a write: every rate is refilled, and every quota is in its window.
func (o *oracle) touch(r *record, now int64) {
	for name := range r.limits {
		r.each(name, func(t tally) []tally { return o.mayForgetOne(o.later(t, now), r.keep, now) })
	}
	r.at = max(r.at, now)
}

// mayTouch records a write that may have taken place.
func (o *oracle) mayTouch(r *record, now int64) {
	for name := range r.limits {
		r.each(name, func(t tally) []tally { return []tally{o.settled(t, now), o.settled(o.later(t, now), now)} })
	}
}

// mayExpire adds the possibility that the bucket has expired: it is idle, every limit
// may be full, and so would be those that it had before. Then it starts again. It
// reports whether that is possible.
func (o *oracle) mayExpire(r *record, now int64) bool {
	if now < r.keep || now-r.at < r.idle {
		return false
	}
	for _, tallies := range r.limits {
		// A limit about which nothing is known may be full.
		if len(tallies) > 0 && !slices.ContainsFunc(tallies, func(t tally) bool { return o.later(t, now).least == 0 }) {
			return false
		}
	}

	o.mayMiss(r, now)
	return true
}

// mayMiss adds the possibility that there is no bucket.
func (o *oracle) mayMiss(r *record, now int64) {
	r.expiry++
	for name := range r.limits {
		r.each(name, func(t tally) []tally {
			// A new bucket would have every limit full.
			gone := o.unused(t.limit, now, now)

			gone.away, gone.gone = true, true
			return []tally{t, gone}
		})
	}
}

// idleTime returns how long a bucket is at least kept without a write: seven times the
// longest fill time of its rates.
func idleTime(limits []limiter.Limit) int64 {
	longest := int64(0)
	for _, l := range limits {
		if !l.IsQuota() {
			longest = max(longest, refillTime(l, capacityOf(l)))
		}
	}

	return max(1000, 7*longest)
}

// pays reports whether any amount is for one of the limits.
func pays(limits []limiter.Limit, amounts limiter.Amounts) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool {
		_, named := amounts.Lookup(l.Name)
		return named
	})
}
