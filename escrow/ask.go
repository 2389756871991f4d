package escrow

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// prepare reserves what the pot holds and returns the first charge.
func (f *flight) prepare() limiter.Charge {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset()
	t := tick{f.now.UnixMilli(), f.machine()}
	f.at = t // a flight that needs no request by now answers at this time
	f.expire(t)
	sum, named := f.need(f.batch)
	for j := range sum {
		if !named[j] {
			continue
		}
		f.clear[j] = f.held[j] > 0
		f.reserve(j, sum[j])
		f.extra[j] = f.allowance(j, sum[j], t)
	}
	return f.charge(sum, named)
}

// reset clears what the flight has.
func (f *flight) reset() {
	n := len(f.slots)
	f.reserved, f.granted, f.extra, f.clear, f.claims = make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n), nil
}

// need returns the sum of the charges of some callers by slot, and the slots that
// they name.
func (f *flight) need(callers []*waiter) (sum []int64, named []bool) {
	sum, named = make([]int64, len(f.slots)), make([]bool, len(f.slots))
	for _, w := range callers {
		for i := range w.charge.Amounts.Len() {
			name, n := w.charge.Amounts.At(i)
			if j := f.slot(name, i); j >= 0 {
				sum[j], named[j] = bucket.Add(sum[j], n), true
			}
		}
	}
	return sum, named
}

// reserve moves up to n tokens of a slot from the pot to the flight.
func (f *flight) reserve(j int, n int64) {
	for _, g := range f.grants {
		if part := min(n-f.reserved[j], g.held[j]); part > 0 {
			f.put(g, j, -part)
			f.reserved[j] += part
			f.claims = append(f.claims, claim{g, j, part})
		}
	}
}

// allowance returns how much may be taken beyond the need of the callers: at most
// what the pot spent in the last hold and spends now, less what it still holds; at
// most an eighth of what the bucket has left; and for all pots of an account at
// most an eighth of its capacity. What a single caller spends now is no sign of
// more to come: the next hold needs what the last one did, and a return costs a
// request. If a request takes half a hold or more, an extra would be late.
func (f *flight) allowance(j int, sum int64, t tick) int64 {
	if f.hold == 0 || f.roundTrip >= f.hold/2 {
		return 0
	}
	spent := f.netSpent(j)
	if len(f.batch) > 1 {
		spent = bucket.Add(spent, sum)
	}
	extra := spent - f.held[j] - f.refundedOf(j)
	lack := sum - f.reserved[j]
	extra = min(extra, (f.left(j, t.now)-lack)/share)
	if extra <= 0 || f.nearEmpty(j, lack, t.now) {
		return 0
	}
	return f.borrow(j, extra)
}

// refundedOf returns the tokens of a slot that either account got back lately.
func (p *pot) refundedOf(j int) (n int64) {
	s := &p.slots[j]
	if s.self >= 0 {
		n, _ = p.refunded(p.lentKey(false, s.name))
	}
	if s.parent >= 0 {
		m, _ := p.refunded(p.lentKey(true, s.name))
		n = max(n, m)
	}
	return n
}

// dropExtra gives up the extra, since it was refused or the accounts have changed.
func (f *flight) dropExtra() (had bool) {
	for j, n := range f.extra {
		had = had || n > 0
		f.release(&f.accounts, j, n)
		f.extra[j] = 0
	}
	return had
}

// charge returns the charge for a need: what the flight lacks, and the extra. It is
// strict unless it is the charge of a single caller as it is: the store must not
// spare a shadow limit for several callers at once, nor for the extra.
func (f *flight) charge(sum []int64, named []bool) limiter.Charge {
	c := limiter.Charge{Entity: f.key.Entity, Resource: f.key.Resource, Defaults: f.defaults}
	lacks := false
	for j := range sum {
		n := max(0, sum[j]-f.reserved[j]-f.granted[j])
		lacks = lacks || n > 0 || named[j] && !f.clear[j]
		if named[j] && !f.clear[j] || n+f.extra[j] > 0 {
			c.Amounts = c.Amounts.And(f.slots[j].name, n+f.extra[j])
		}
	}
	if !lacks {
		return limiter.Charge{}
	}
	c.Strict = true
	if alone := f.batch[0]; len(f.batch) == 1 && c.Amounts.Equal(alone.charge.Amounts) {
		c.Amounts = alone.charge.Amounts // in the caller's order, which an error may show
		c.Strict = alone.charge.Strict || slices.ContainsFunc(f.extra, positive) ||
			slices.ContainsFunc(f.reserved, positive)
	}
	return c
}
