package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Turn is the part one bucket plays in a charge: its state brought to the time
// of the call, not yet written.
type Turn struct {
	// View is what the charge is judged by and the caller gets to see.
	View     limiter.Bucket
	bucket   *Bucket
	at       int64
	tokens   []int64 // of the bucket's own limits; View.Tokens unless overridden
	override bool
}

// Begin brings b to now for a charge that is judged by b's own limits.
func Begin(b *Bucket, now int64) Turn {
	at := max(now, b.At)
	tokens := b.refilled(at)
	return Turn{View: limiter.Bucket{Account: b.Account, Tokens: tokens, Ahead: Ahead(at, now)}, bucket: b, at: at, tokens: tokens}
}

// Ahead is by how much a bucket's own time is later than now.
func Ahead(at, now int64) time.Duration {
	if at <= now {
		return 0
	}
	return time.Duration(min(bucket.Sub(at, now), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// BeginOverride brings b to now for a charge that is judged by limits instead,
// which are sorted. They refill the bucket for this call and leave its own
// parameters alone; the smaller capacity of the two is the one in force.
func BeginOverride(b *Bucket, now int64, limits []limiter.Limit) Turn {
	t := Begin(b, now)
	own := b.Account
	limits = slices.Clone(limits)
	t.override = true
	t.View = limiter.Bucket{
		Account: &limiter.Account{Entity: own.Entity, Resource: own.Resource, Limits: limits, Ref: own.Ref},
		Tokens:  make([]int64, len(limits)),
		Ahead:   t.View.Ahead,
	}
	for i, l := range limits {
		r := rate(l)
		full := r.Capacity
		if j := find(own.Limits, l.Name, i); j >= 0 {
			r.Capacity = own.Limits[j].Capacity * bucket.Milli
			t.tokens[j] = bucket.Advance(b.Tokens[j], b.At, t.at, r)
			full = min(full, t.tokens[j])
			limits[i].Capacity = min(l.Capacity, own.Limits[j].Capacity)
		}
		t.View.Tokens[i] = full
	}
	return t
}

// Charge is Begin, Judge, Pay and Commit for a bucket that pays alone by its own
// limits, which most do: the same steps with fewer detours. The outcome goes to
// out, which is empty before and after an error.
func (b *Bucket) Charge(now int64, amounts *limiter.Amounts, book Book, out *limiter.Outcome) error {
	ahead := Ahead(b.At, now)
	now = max(now, b.At)
	limits, tokens := b.Account.Limits, b.refilled(now)
	fits := true
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := find(limits, name, i)
		if j < 0 {
			return unknownLimit(name, limiter.Bucket{Account: b.Account})
		}
		fits = fits && tokens[j] >= bucket.Thousandths(n)
	}
	if fits {
		if err := b.open(now, book); err != nil {
			return err
		}
		b.pay(now, tokens, amounts)
	}
	out.Admitted, out.Self.Account, out.Self.Tokens, out.Self.Ahead = fits, b.Account, tokens, ahead
	return nil
}

// pay takes the amounts, all of which the bucket has a limit for.
func (b *Bucket) pay(now int64, tokens []int64, amounts *limiter.Amounts) {
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := find(b.Account.Limits, name, i)
		tokens[j] -= n * bucket.Milli
		b.count(j, n)
	}
	b.settle(now, tokens)
}

// Judge tells whether every side covers the amounts it has a limit for. An
// amount that no side has a limit for is an *InvalidError.
func Judge(amounts *limiter.Amounts, sides ...limiter.Bucket) (bool, error) {
	fits := true
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		known := false
		for _, side := range sides {
			if side.Account == nil {
				continue
			}
			if j := find(side.Account.Limits, name, i); j >= 0 {
				known = true
				fits = fits && side.Tokens[j] >= bucket.Thousandths(n)
			}
		}
		if !known {
			return false, unknownLimit(name, sides...)
		}
	}
	return fits, nil
}

func unknownLimit(name string, sides ...limiter.Bucket) error {
	var have []string
	for _, side := range sides {
		if side.Account == nil {
			continue
		}
		for _, l := range side.Account.Limits {
			have = append(have, l.Name)
		}
	}
	slices.Sort(have)
	self := sides[0].Account
	return &limiter.InvalidError{
		Field: "consume", Value: name,
		Reason: fmt.Sprintf("is no limit of entity %s and resource %s, nor of a parent it cascades to; the limits are %s",
			self.Entity, self.Resource, strings.Join(slices.Compact(have), ", ")),
	}
}

// NoLimits is the error for an entity and resource without limits.
func NoLimits(entity, resource string) error {
	return &limiter.InvalidError{
		Field: "limits", Value: fmt.Sprintf("entity=%s, resource=%s", entity, resource), Err: limiter.ErrNoLimits,
		Reason: fmt.Sprintf("none are stored for entity %s and resource %s, nor for the entity, the resource or the system; set some, pass them with the request, or give the limiter defaults", entity, resource),
	}
}

// Pay takes the amounts from the view, after Judge allowed it.
func (t *Turn) Pay(amounts *limiter.Amounts) {
	limits := t.View.Account.Limits
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(limits, name, i); j >= 0 {
			t.View.Tokens[j] -= n * bucket.Milli
		}
	}
}

// Commit writes what was paid into the bucket, and books its usage. A bucket
// that has none of the limits, because only its parent or its child has, pays
// nothing and stays as it is.
func (t *Turn) Commit(amounts *limiter.Amounts, book Book) error {
	b := t.bucket
	if !t.override && !Pays(b.Account.Limits, amounts) {
		return nil
	}
	if t.override {
		if err := t.settleOverride(amounts, book); err != nil {
			return err
		}
	}
	if err := b.open(t.at, book); err != nil {
		return err
	}
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(b.Account.Limits, name, i); j >= 0 {
			b.count(j, n)
		}
	}
	b.settle(t.at, t.tokens)
	return nil
}

// Pays tells whether any of the amounts is for one of the limits.
func Pays(limits []limiter.Limit, amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		if name, _ := amounts.At(i); find(limits, name, i) >= 0 {
			return true
		}
	}
	return false
}

// settleOverride makes tokens what the bucket's own limits hold after the
// payment. Limits that only the override has join the bucket.
func (t *Turn) settleOverride(amounts *limiter.Amounts, book Book) error {
	b, limits := t.bucket, t.View.Account.Limits
	var added []limiter.Limit
	for i, l := range limits {
		if find(b.Account.Limits, l.Name, i) < 0 {
			added = append(added, l)
		}
	}
	if added != nil {
		joined := *b.Account
		joined.Limits = Sorted(slices.Concat(b.Account.Limits, added))
		b.Tokens = t.tokens
		b.At = t.at
		if _, err := b.Repair(t.at, &joined, b.Idle, book); err != nil {
			return err
		}
		t.tokens = slices.Clone(b.Tokens)
	}
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if find(limits, name, i) < 0 {
			continue
		}
		if j := find(b.Account.Limits, name, i); j >= 0 {
			t.tokens[j] -= n * bucket.Milli
		}
	}
	return nil
}
