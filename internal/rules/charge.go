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

// Turn is one bucket's part in a charge: its state at the time of the call, which
// is not written yet.
type Turn struct {
	// View is the bucket that Judge uses and the caller gets.
	View    limiter.Bucket
	bucket  *Bucket
	at, now int64 // the times of rates and of quotas
	// tokens belong to the bucket's own limits. Without an override they are
	// View.Tokens.
	tokens   []int64
	override bool
}

// Begin starts a charge of b at now, judged by the bucket's own limits.
func Begin(b *Bucket, now int64) Turn { return BeginAt(b, now, now) }

// BeginAt starts a charge of b whose rates are refilled up to a time that may be
// later than now, because this process has refilled them up to then before.
func BeginAt(b *Bucket, at, now int64) Turn {
	at = max(at, b.At)
	tokens := b.tokensAt(at, now)

	// The turn and its view share tokens: what Pay takes from the view is what
	// Commit stores. An override gives the view tokens of its own.
	view := limiter.Bucket{Account: b.Account, Tokens: tokens, Ahead: Ahead(at, now), Detail: b.detail(now, nil)}
	return Turn{View: view, bucket: b, at: at, now: now, tokens: tokens}
}

// Ahead returns by how much a bucket's own time is later than now.
func Ahead(at, now int64) time.Duration {
	if at <= now {
		return 0
	}

	// The clamp keeps the product in the range of a Duration.
	return time.Duration(min(bucket.Sub(at, now), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// Charge performs Begin, Judge, Pay and Commit for a bucket that pays alone and by
// its own limits. It is the fast path of memory, and repeats their steps for speed. It
// stores the outcome in out, which must be zero, and leaves out alone if it fails.
func (b *Bucket) Charge(now int64, amounts *limiter.Amounts, book Book, out *limiter.Outcome) error {
	// The payment moves b.At, so both times come before it.
	ahead, at := Ahead(b.At, now), max(now, b.At)
	limits, alone := b.Account.Limits, new(single)
	tokens := alone.room(len(b.Tokens))
	b.refill(tokens, at, now)

	// An amount that does not fit does not end the loop: an unknown limit after
	// it is an error all the same.
	fits := true
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := find(limits, name, i)
		if j < 0 {
			return unknownLimit(name, []limiter.Bucket{{Account: b.Account}})
		}
		fits = fits && (tokens[j] >= bucket.Thousandths(n) || limits[j].IsShadow)
	}

	var spared []bool
	// As in Commit, a charge without amounts changes nothing, not even the
	// expiry.
	if fits && amounts.Len() > 0 {
		if err := b.startHour(at, book); err != nil {
			return err
		}
		spared = b.pay(at, now, tokens, amounts)
	}

	// The outcome outlives the lock of the store. It may keep tokens, because
	// endChange has copied them.
	alone.payers[0] = limiter.Bucket{Account: b.Account, Tokens: tokens, Ahead: ahead, Detail: b.detail(now, spared)}
	out.Admitted, out.Payers = fits, alone.payers[:]
	return nil
}

// single holds the only payer of an outcome and its tokens, so that a charge on the
// fast path allocates once.
type single struct {
	payers [1]limiter.Bucket
	tokens [4]int64
}

// room returns a slice for the tokens of n limits.
func (s *single) room(n int) []int64 {
	// More limits than that are rare.
	if n > len(s.tokens) {
		return make([]int64, n)
	}
	return s.tokens[:n:n]
}

// pay takes the amounts, and returns the limits that it spared. The bucket has a
// limit for each amount.
func (b *Bucket) pay(at, now int64, tokens []int64, amounts *limiter.Amounts) (spared []bool) {
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := find(b.Account.Limits, name, i)
		// Charge has judged the amounts, so only a shadow limit can fall short
		// here.
		if need := bucket.Thousandths(n); tokens[j] >= need {
			tokens[j] -= need
		} else {
			b.spare(j)
			spared = sparing(spared, j, len(tokens))
		}

		// A spared amount is used as well, although it is not paid.
		b.count(j, n)
	}

	b.endChange(at, now, tokens)
	return spared
}

// sparing marks limit i of n as spared.
func sparing(spared []bool, i, n int) []bool {
	if spared == nil {
		spared = make([]bool, n)
	}
	spared[i] = true
	return spared
}

// Judge reports whether every payer covers the amounts that it has a limit for. A
// shadow limit refuses only a strict charge. An amount that no payer has a limit for
// is a *limiter.InvalidError.
func Judge(charge *limiter.Charge, payers []limiter.Bucket) (bool, error) {
	fits := true
	// An amount that does not fit does not end the loop: an unknown limit after
	// it is an error all the same.
	for i := range charge.Amounts.Len() {
		name, n := charge.Amounts.At(i)
		known := false
		for _, payer := range payers {
			if j := find(payer.Account.Limits, name, i); j >= 0 {
				known = true
				// A strict charge records work that is done. It is refused
				// where a shadow limit falls short, so that its caller can take
				// the amount as debt.
				fits = fits && (payer.Tokens[j] >= bucket.Thousandths(n) || payer.Account.Limits[j].IsShadow &&
					!charge.Strict)
			}
		}

		// A payer may lack the limit, but not all of them.
		if !known {
			return false, unknownLimit(name, payers)
		}
	}

	return fits, nil
}

// unknownLimit returns the error for an amount that no payer has a limit for.
func unknownLimit(name string, payers []limiter.Bucket) error {
	var have []string
	for _, payer := range payers {
		for _, l := range payer.Account.Limits {
			have = append(have, l.Name)
		}
	}

	// Payers may have limits of the same name, which Compact merges.
	slices.Sort(have)
	self := payers[0].Account
	return &limiter.InvalidError{
		Field: "consume", Value: name,
		Reason: fmt.Sprintf("is no limit of entity %s and resource %s, nor of a parent it cascades to; the "+
			"limits are %s",
			self.Entity, self.Resource, strings.Join(slices.Compact(have), ", ")),
		Err: limiter.ErrUnknown,
	}
}

// NoLimits returns the error for an entity and resource without limits.
func NoLimits(entity, resource string) error {
	return &limiter.InvalidError{
		Field: "limits", Value: fmt.Sprintf("entity=%s, resource=%s", entity, resource), Err: limiter.ErrNoLimits,
		Reason: fmt.Sprintf(
			"none are stored for entity %s and resource %s, nor for the entity, the resource or the system; "+
				"set some, pass them with the request, or give the limiter defaults",
			entity, resource,
		),
	}
}

// Pay takes the amounts from View after Judge admitted them. It spares shadow
// limits that do not cover theirs.
func (t *Turn) Pay(amounts *limiter.Amounts) {
	limits := t.View.Account.Limits
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j, need := find(limits, name, i), bucket.Thousandths(n)
		switch {
		// Only other payers have this limit.
		case j < 0:
		case t.View.Tokens[j] >= need:
			t.View.Tokens[j] -= need
		// Judge admitted the charge, so only a shadow limit can fall short
		// here.
		default:
			// A bucket of rates has no Detail until a limit is spared.
			if t.View.Detail == nil {
				t.View.Detail = &limiter.Detail{At: t.now}
			}
			t.View.Detail.Spared = sparing(t.View.Detail.Spared, j, len(limits))
		}
	}
}

// spares reports whether Pay spared a limit.
func (t *Turn) spares(limit string, begin int) bool {
	d := t.View.Detail
	if d == nil || d.Spared == nil {
		return false
	}

	j := find(t.View.Account.Limits, limit, begin)
	return j >= 0 && d.Spared[j]
}

// Commit writes the payment to the bucket and counts its usage. A bucket that has
// none of the limits, because only other payers have them, does not change.
func (t *Turn) Commit(amounts *limiter.Amounts, book Book) error {
	b := t.bucket
	// An override may have limits that the bucket gets from applyOverride only.
	if !t.override && !Pays(b.Account.Limits, amounts) {
		return nil
	}

	if t.override {
		if err := t.applyOverride(amounts, book); err != nil {
			return err
		}
	}

	// The bucket's own time decides the hour. It may be ahead of the caller's.
	if err := b.startHour(t.at, book); err != nil {
		return err
	}

	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(b.Account.Limits, name, i); j >= 0 {
			b.count(j, n)
			if t.spares(name, i) {
				b.spare(j)
			}
		}
	}

	b.endChange(t.at, t.now, t.tokens)
	return nil
}

// Pays reports whether any of the amounts is for one of the limits.
func Pays(limits []limiter.Limit, amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		if name, _ := amounts.At(i); find(limits, name, i) >= 0 {
			return true
		}
	}
	return false
}
