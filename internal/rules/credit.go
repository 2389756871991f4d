package rules

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Credit gives back positive amounts, up to the capacity, and takes negative
// amounts even into debt. It skips limits that the bucket no longer has. The
// amounts of limits that spared names change the usage alone. A credit without
// effect does not count as a change. What was taken under a higher capacity of a
// quota, as the account of shows, pays the excess first.
func (b *Bucket) Credit(now int64, of *limiter.Account, amounts *limiter.Amounts, spared []string, book Book) error {
	if !b.affectedBy(amounts) {
		return nil
	}
	if err := b.startHour(max(now, b.At), book); err != nil {
		return err
	}
	b.Advance(now)
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		if j := find(b.Account.Limits, name, i); j >= 0 {
			if !slices.Contains(spared, name) {
				b.credit(j, of, bucket.Thousandths(n))
			}
			b.count(j, bucket.Sub(0, n))
		}
	}
	b.endChange(b.At, now, b.Tokens)
	return nil
}

// credit adds an amount, which may be negative, to limit i.
func (b *Bucket) credit(i int, of *limiter.Account, amount int64) {
	tokens := bucket.Add(b.Tokens[i], amount)
	if amount > 0 && b.Repays(i, of) {
		var excess int64
		tokens, excess = bucket.Repay(b.Tokens[i], b.excess(i), amount)
		b.setExcess(i, excess)
	}
	b.Tokens[i] = min(b.Account.Limits[i].Capacity*bucket.Milli, tokens)
}

// Repays reports whether a give-back to limit i pays its excess first: an account
// took it under a higher capacity of the quota.
func (b *Bucket) Repays(i int, of *limiter.Account) bool {
	if b.excess(i) == 0 || of == nil {
		return false
	}
	own := b.Account.Limits[i]
	j := find(of.Limits, own.Name, i)
	return j >= 0 && of.Limits[j].Window != 0 && of.Limits[j].Capacity > own.Capacity
}

// affectedBy reports whether a credit changes any limit of the bucket.
func (b *Bucket) affectedBy(amounts *limiter.Amounts) bool {
	for i := range amounts.Len() {
		if name, n := amounts.At(i); n != 0 && find(b.Account.Limits, name, i) >= 0 {
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
