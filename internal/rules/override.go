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
	// The limits become those that judge, which the caller must not see.
	limits = slices.Clone(limits)
	t.override = true

	// The view has tokens of its own: the override bounds what this call gets,
	// and not what the bucket holds.
	t.View = limiter.Bucket{
		Account: &limiter.Account{Entity: own.Entity, Resource: own.Resource, Limits: limits, Ref: own.Ref},
		Tokens:  make([]int64, len(limits)),
		Ahead:   t.View.Ahead,
	}

	for i, l := range limits {
		// A limit that the bucket lacks joins it, since its use could not be
		// counted otherwise.
		v := b.joins(l, t.at, now)
		if j := find(own.Limits, l.Name, i); j >= 0 {
			v = t.judgedBy(l, j)
		}
		limits[i], t.View.Tokens[i] = v.Limit, v.Tokens

		// Only quotas have windows and peaks, so an override of rates needs no
		// Detail.
		if v.Limit.Window == 0 {
			continue
		}

		if t.View.Detail == nil || t.View.Detail.Starts == nil {
			t.View.Detail = &limiter.Detail{At: now, Starts: make([]int64, len(limits))}
		}
		// A peak of 0 means the capacity of the view, so only a larger one has to be
		// named.
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
		// The override refills the bucket for this call, but never above the
		// bucket's own capacity, which holds for all other calls.
		r := RateOf(l)
		r.Capacity = own.Limit.Capacity * bucket.Milli
		own.Tokens = bucket.Advance(b.Tokens[j], b.At, t.at, r)
		t.tokens[j] = own.Tokens
	} else {
		// What is used of the bucket's quota is used of a smaller one too. If
		// 40 of 100 a day are left, 60 are used, and an override of 50 a day
		// has -10.
		own.Tokens = bucket.Sub(own.Tokens, OverrideReserve(own.Limit, l))
		// The quota of the bucket fills at the boundary, by its own capacity or
		// its peak. A refusal has to name that boundary.
		own.Peak = max(own.Peak, own.Limit.Capacity*bucket.Milli)
		l.Refill, l.Period, l.Window, l.Zone = own.Limit.Refill, own.Limit.Period, own.Limit.Window, own.Limit.Zone
	}

	// The smaller capacity judges, whichever limit fills.
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
// otherwise calls that alternate between two windows would replace the quota each time,
// and no step would ever be taken.
func (b *Bucket) FollowOverride(at, now int64, override, stored []limiter.Limit, book Book) error {
	limits, follows := slices.Clone(b.Account.Limits), false
	// Only quotas are followed: an override of rates ends with its call.
	for i := range limits {
		own := &limits[i]
		j := find(override, own.Name, i)
		if j < 0 || !differAsQuotas(*own, override[j]) || find(stored, own.Name, i) >= 0 {
			continue
		}
		// The flag of the override counts for its call alone.
		shadow := own.IsShadow
		*own, follows = override[j], true
		own.IsShadow = shadow
	}

	if !follows {
		return nil
	}

	// reshape moves the bucket's time, so the rates of the override would
	// refill nothing afterwards. BeginOverride refills by them before.
	t := BeginOverride(b, at, now, override)
	return t.reshape(limits, book)
}

// AwaitsOverride reports whether a bucket that refuses a charge has to keep what
// FollowOverride did, because a limit with other windows does not cover its amount.
// For example, a call carries 10 a day after 1000 a month are used up. If the bucket
// went back to the month, it would refuse all calls until the month ends. own holds
// the limits that the bucket had before FollowOverride.
func AwaitsOverride(own []limiter.Limit, view limiter.Bucket, amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j, k := find(own, name, i), find(view.Account.Limits, name, i)
		if j < 0 || k < 0 {
			continue
		}
		l := view.Account.Limits[k]

		// A quota that only changes its capacity fills at the same boundary as
		// before, and an amount above the capacity never fits. The change helps
		// neither.
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
	// Leases and outcomes share the account, so a change replaces it.
	account := *b.Account
	account.Limits = limits

	// Repair starts from the bucket's tokens, which have to be those that the
	// turn has refilled.
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

	// Nothing could count the use of a limit that only the override has, so the
	// bucket gets it.
	if added != nil {
		if err := t.reshape(Sorted(slices.Concat(b.Account.Limits, added)), book); err != nil {
			return err
		}
		// The limits have another order, so the turn's tokens do not fit them.
		t.tokens = slices.Clone(b.Tokens)
	}

	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if find(limits, name, i) < 0 || t.spares(name, i) {
			continue
		}
		// Judge has admitted the amount, so the product fits an int64.
		if j := find(b.Account.Limits, name, i); j >= 0 {
			t.tokens[j] -= n * bucket.Milli
		}
	}
	return nil
}
