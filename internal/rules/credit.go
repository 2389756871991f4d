package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Credit gives back positive amounts, up to the capacity, and takes negative
// amounts even into debt. A limit of charged, the limits of the charge, that the bucket
// neither has nor remembers owes what is taken, and was full; others are skipped. The
// amounts of limits that spared names change the usage alone. A credit without effect
// does not count as a change.
func (b *Bucket) Credit(
	now int64, amounts *limiter.Amounts, spared []string, charged []limiter.Limit, book Book,
) error {
	// A credit without effect must not renew the bucket or count as an event.
	if !b.affectedBy(amounts, spared, charged) {
		return nil
	}

	// As for a charge, the bucket's own time decides the hour.
	if err := b.startHour(max(now, b.At), book); err != nil {
		return err
	}

	// The refill comes first: a bucket that has been full must not refill what
	// this credit takes.
	b.Advance(now)
	b.Recall(now, amounts, spared, charged)

	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(b.Account.Limits, name, i); j >= 0 {
			// The charge took nothing from a limit that it spared, so only
			// the usage changes.
			if !slices.Contains(spared, name) {
				b.give(j, bucket.Thousandths(n))
			}
			b.count(j, bucket.Sub(0, n))
		}
	}

	// This precedes endChange, which counts one event for the whole credit, and
	// forgets limits that are full again.
	if err := b.creditLeft(now, amounts, spared, book); err != nil {
		return err
	}

	b.endChange(b.At, now, b.Tokens)
	return nil
}

// give adds thousandths to limit i as Give does.
func (b *Bucket) give(i int, n int64) {
	before := b.Level(i)
	v := before.Give(n)
	b.Tokens[i] = v.Tokens
	if v.Hidden != before.Hidden {
		b.Hidden = withValue(b.Hidden, len(b.Hidden), i, v.Hidden)
	}
}

// Give returns the level with n thousandths more, up to the capacity. What is above
// the capacity lowers the use that a change of windows has hidden. For example, 100 a
// month are used up and become 10 a day, which hides 90 of the use. Giving back 100
// leaves 10, the capacity, and hides nothing. As 100 a day, the quota then has 100.
func (v Level) Give(n int64) Level {
	sum, full := bucket.Add(v.Tokens, n), v.Limit.Capacity*bucket.Milli
	v.Tokens = min(full, sum)

	// A give-back first reduces the use that shows, and only the rest of it the
	// use that is hidden.
	if v.Hidden > 0 {
		v.Hidden -= min(v.Hidden, max(0, bucket.Sub(sum, full)))
	}
	return v
}

// Recall adds limits of a charge to Left, full, if the bucket has forgotten them and
// amounts take from them. The bucket then remembers what they owe. Recall adds none
// beyond MaxLimits. The bucket must be advanced to now.
func (b *Bucket) Recall(now int64, amounts *limiter.Amounts, spared []string, charged []limiter.Limit) {
	// Copies of the bucket share Left, so it is replaced and not changed.
	left := slices.Clone(b.Left)
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := find(charged, name, i)
		// A forgotten limit was full, so giving back adds nothing. A
		// charge took nothing from a limit that it spared.
		if n >= 0 || j < 0 || slices.Contains(spared, name) || find(b.Account.Limits, name, i) >= 0 ||
			b.findLeft(name) >= 0 {
			continue
		}

		if len(b.Account.Limits)+len(left) < MaxLimits {
			left = append(left, newLevel(charged[j], max(now, b.At), now))
		}
	}

	if len(left) > len(b.Left) {
		slices.SortFunc(left, compareLevels)
		b.Left = left
	}
}

// affectedBy reports whether a credit may change a limit that the bucket has, remembers or
// recalls.
func (b *Bucket) affectedBy(amounts *limiter.Amounts, spared []string, charged []limiter.Limit) bool {
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if n != 0 && (find(b.Account.Limits, name, i) >= 0 || b.findLeft(name) >= 0) {
			return true
		}
		// The bucket has forgotten this limit. It was full, so giving back
		// adds nothing, and what is taken is owed.
		if n < 0 && find(charged, name, i) >= 0 && !slices.Contains(spared, name) {
			return true
		}
	}
	return false
}

// Takes returns the negative amounts of a credit, which take more, and reports
// whether there are any.
func Takes(amounts *limiter.Amounts) (takes limiter.Amounts, some bool) {
	for i := range amounts.Len() {
		if name, n := amounts.At(i); n < 0 {
			takes, some = takes.And(name, n), true
		}
	}
	return takes, some
}
