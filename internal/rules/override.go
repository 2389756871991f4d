package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// BeginOverride starts a charge of b, as BeginAt does, judged by limits, which are
// sorted by name. They refill the bucket for this call and do not change its own
// limits; where one of the two is a quota, the bucket's own limit refills, and View
// says so. The smaller of the two capacities applies. What a quota has spent of its
// window counts for a smaller quota of the same windows.
func BeginOverride(b *Bucket, at, now int64, limits []limiter.Limit) Turn {
	t := BeginAt(b, at, now)
	own := b.Account
	limits = slices.Clone(limits)
	t.override = true
	t.View = limiter.Bucket{
		Account: &limiter.Account{Entity: own.Entity, Resource: own.Resource, Limits: limits, Ref: own.Ref},
		Tokens:  make([]int64, len(limits)),
		Ahead:   t.View.Ahead,
	}
	for i, l := range limits {
		v := b.joins(l, t.at, now)
		if j := find(own.Limits, l.Name, i); j >= 0 {
			v = t.judgedBy(l, j)
		}
		limits[i], t.View.Tokens[i] = v.Limit, v.Tokens
		if v.Limit.Window == 0 {
			continue
		}
		if t.View.Detail == nil || t.View.Detail.Starts == nil {
			t.View.Detail = &limiter.Detail{At: now, Starts: make([]int64, len(limits))}
		}
		if t.View.Detail.Starts[i] = v.Start; v.Peak > v.Limit.Capacity*bucket.Milli {
			t.View.Detail.Peaks = withValue(t.View.Detail.Peaks, len(limits), i, v.Peak)
		}
	}
	return t
}

// judgedBy returns the limit that judges a charge whose override has l where the
// bucket has its own limit j, and its level.
func (t *Turn) judgedBy(l limiter.Limit, j int) Level {
	b := t.bucket
	own := b.Level(j).advanced(t.at, t.now)
	if l.Window == 0 && own.Limit.Window == 0 {
		r := RateOf(l)
		r.Capacity = own.Limit.Capacity * bucket.Milli
		own.Tokens = bucket.Advance(b.Tokens[j], b.At, t.at, r)
		t.tokens[j] = own.Tokens
	} else {
		own.Tokens = bucket.Sub(own.Tokens, OverrideReserve(own.Limit, l))
		own.Peak = max(own.Peak, own.Limit.Capacity*bucket.Milli)
		l.Refill, l.Period, l.Window, l.Zone = own.Limit.Refill, own.Limit.Period, own.Limit.Window, own.Limit.Zone
	}
	own.Tokens = min(own.Tokens, l.Capacity*bucket.Milli)
	l.Capacity = min(l.Capacity, own.Limit.Capacity)
	own.Limit = l
	return own
}

// OverrideReserve returns by how many thousandths the tokens of a quota must exceed
// what an override takes: the difference to a smaller quota of the same windows.
func OverrideReserve(own, override limiter.Limit) int64 {
	if !sameWindow(own, override) {
		return 0
	}
	return max(0, own.Capacity-override.Capacity) * bucket.Milli
}

// OverridesQuota reports whether a limit of an override differs from the bucket's own
// limit of that name, and one of the two is a quota.
func OverridesQuota(own, override []limiter.Limit) bool {
	for i, l := range override {
		if j := find(own, l.Name, i); j >= 0 && differAsQuotas(own[j], l) {
			return true
		}
	}
	return false
}

// differAsQuotas reports whether two limits differ, and one of them is a quota.
// Whether one is a shadow limit does not matter.
func differAsQuotas(a, b limiter.Limit) bool {
	return (a.Window != 0 || b.Window != 0) && (a.Capacity != b.Capacity || !sameWindow(a, b))
}

// FollowOverride makes the bucket follow the quotas of an override, which is sorted
// by name, as Repair follows a change of limits: a quota lasts longer than the call,
// and the next call with the same override must find what this one has left. Rates
// become quotas, and quotas rates. A limit of a name in stored, the limits in force,
// stays and fills, since the override is for one call. Steps that are due are taken:
// calls with different windows would otherwise lose them to each other in turn.
func (b *Bucket) FollowOverride(at, now int64, override, stored []limiter.Limit, book Book) error {
	limits, follows := slices.Clone(b.Account.Limits), false
	for i := range limits {
		own := &limits[i]
		j := find(override, own.Name, i)
		if j < 0 || !differAsQuotas(*own, override[j]) || find(stored, own.Name, i) >= 0 {
			continue
		}
		shadow := own.IsShadow
		*own, follows = override[j], true
		own.IsShadow = shadow
	}
	if !follows {
		return nil
	}
	t := BeginOverride(b, at, now, override)
	return t.reshape(limits, book)
}

// AwaitsOverride reports whether a bucket that refuses a charge has to keep what
// FollowOverride did: a limit that now fills at other times than before does not cover
// its amount. Otherwise it would go on filling as before, and the override would be
// refused until then. own holds the limits that the bucket had.
func AwaitsOverride(own []limiter.Limit, view limiter.Bucket, amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j, k := find(own, name, i), find(view.Account.Limits, name, i)
		if j < 0 || k < 0 {
			continue
		}
		l := view.Account.Limits[k]
		changed := differAsQuotas(own[j], l) && !sameWindow(own[j], l)
		if changed && n <= l.Capacity && view.Tokens[k] < bucket.Thousandths(n) {
			return true
		}
	}
	return false
}

// reshape gives the bucket, as the turn refills it, other limits.
func (t *Turn) reshape(limits []limiter.Limit, book Book) error {
	b := t.bucket
	account := *b.Account
	account.Limits = limits
	b.Tokens, b.At = t.tokens, t.at
	b.openWindows(t.now)
	_, err := b.Repair(t.now, &account, b.Idle, book)
	return err
}

// applyOverride computes the tokens of the bucket's own limits after the payment.
// It adds limits to the bucket that only the override has.
func (t *Turn) applyOverride(amounts *limiter.Amounts, book Book) error {
	b, limits := t.bucket, t.View.Account.Limits
	var added []limiter.Limit
	for i, l := range limits {
		if find(b.Account.Limits, l.Name, i) < 0 {
			added = append(added, l)
		}
	}
	if added != nil {
		if err := t.reshape(Sorted(slices.Concat(b.Account.Limits, added)), book); err != nil {
			return err
		}
		t.tokens = slices.Clone(b.Tokens)
	}
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if find(limits, name, i) < 0 || t.spares(name, i) {
			continue
		}
		if j := find(b.Account.Limits, name, i); j >= 0 {
			t.tokens[j] -= n * bucket.Milli
		}
	}
	return nil
}
