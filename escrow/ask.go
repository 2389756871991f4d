package escrow

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// prepare reserves what the pot holds and returns the first charge.
func (f *flight) prepare() limiter.Charge {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset()

	// A flight that needs no request after all answers at this time.
	t := tick{f.now.UnixMilli(), f.machine()}
	f.at = t

	// A token whose hold is over must not pay, so those grants end first.
	f.expire(t)

	sum, named := f.need(f.batch)
	for j := range sum {
		// No caller needs this limit, so an extra of it would only be returned.
		if !named[j] {
			continue
		}

		// The store admitted the charge that put these tokens into the pot, so
		// the limit is not in debt.
		f.clear[j] = f.held[j] > 0
		f.reserve(j, sum[j])
		// After the reservation, since the allowance depends on what the charge
		// still lacks.
		f.extra[j] = f.allowance(j, sum[j], t)
	}

	return f.charge(sum, named)
}

// reset clears what the flight has.
func (f *flight) reset() {
	n := len(f.slots)
	f.reserved, f.granted, f.extra, f.clear, f.claims = make([]int64, n), make([]int64, n),
		make([]int64, n), make([]bool, n), nil
	f.windows = make(windows, len(f.payers))
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
	// The oldest grants end first, so their tokens would go back soonest.
	for _, g := range f.grants {
		if part := min(n-f.reserved[j], g.held[j]); part > 0 {
			f.put(g, j, -part)
			f.reserved[j] += part
			// A claim names its grant: tokens that are not spent go back into
			// that grant, not into one whose hold lasts longer.
			f.claims = append(f.claims, claim{g, j, part})
		}
	}
}

// allowance returns how many tokens of a slot may be taken beyond the need of the
// callers. That is the smallest of three amounts: what the pot spent in the last
// hold and spends with this batch, less what it still holds; an eighth of what the
// bucket has left; and what remains of the eighth of the capacity that all pots of
// an account may hold together. The charge of a single caller does not count as
// spent, since tokens that nothing needs cost a request to return. If a request
// takes half a hold or more, the hold would end before the extra is spent, so
// there is none.
func (f *flight) allowance(j int, sum int64, t tick) int64 {
	if f.hold == 0 || f.roundTrip >= f.hold/2 {
		return 0
	}

	// One call in a hold is no sign of more, but several at once are. A pot
	// that spent 0 in the last hold and serves a batch of 30 takes up to 30
	// more.
	spent := f.netSpent(j)
	if len(f.batch) > 1 {
		spent = bucket.Add(spent, sum)
	}

	// Rule 4 of the package: a pot holds at most what it spent, less what came
	// back. Tokens that went back past the pot were not spent either.
	extra := spent - f.held[j] - f.refundedOf(j)

	// The bucket keeps seven eighths of what this charge leaves in it, for
	// other processes.
	lack := sum - f.reserved[j]
	extra = min(extra, (f.left(j, t.now)-lack)/share)
	if extra <= 0 || f.nearEmpty(j, lack, t.now) {
		return 0
	}
	return f.borrow(j, extra)
}

// refundedOf returns the tokens of a slot that one of its payers got back lately.
func (p *pot) refundedOf(j int) (most int64) {
	// A give-back of one call reaches all payers, so the largest sum counts, and
	// not all together.
	for _, at := range p.slots[j].places {
		n, _ := p.refunded(p.lentKey(at))
		most = max(most, n)
	}
	return most
}

// dropExtra gives up the extra and its reservation. It reports whether there was
// any.
func (f *flight) dropExtra() (had bool) {
	for j, n := range f.extra {
		had = had || n > 0
		f.release(&f.accounts, j, n)
		f.extra[j] = 0
	}
	return had
}

// charge returns the charge for a need: what the flight lacks, and the extra. The
// charge is strict, so that the store spares no shadow limit for several callers at
// once, nor for the extra. Only the unchanged charge of a single caller is as
// strict as that caller wants it.
func (f *flight) charge(sum []int64, named []bool) limiter.Charge {
	c := limiter.Charge{Entity: f.key.Entity, Resource: f.key.Resource, Defaults: f.defaults}

	lacks := false
	for j := range sum {
		n := max(0, sum[j]-f.reserved[j]-f.granted[j])
		// A named limit may be in debt, and then refuses even an amount of 0.
		// Only the store can say so, unless the pot has proof to the contrary.
		lacks = lacks || n > 0 || named[j] && !f.clear[j]
		if named[j] && !f.clear[j] || n+f.extra[j] > 0 {
			c.Amounts = c.Amounts.And(f.slots[j].name, n+f.extra[j])
		}
	}

	// An extra alone is not worth a request.
	if !lacks {
		return limiter.Charge{}
	}

	c.Strict = true

	// With 3 tokens reserved and an extra of 3, a charge for 10 equals the
	// caller's by chance. It is not that charge, so it stays strict.
	if alone := f.batch[0]; len(f.batch) == 1 && c.Amounts.Equal(alone.charge.Amounts) {
		// An error may show the amounts, so they are in the caller's order.
		c.Amounts = alone.charge.Amounts
		c.Strict = alone.charge.Strict || slices.ContainsFunc(f.extra, positive) ||
			slices.ContainsFunc(f.reserved, positive)
	}
	return c
}

// afterAll is the time that a request has to end after its last caller has left,
// so that its tokens are not lost.
const afterAll = time.Second

// context returns a context that ends with the last of the callers' deadlines, or
// some time after the last caller has left.
func (f *flight) context() (context.Context, context.CancelFunc) {
	// A context has the values of one caller, such as its trace, which serve
	// for all.
	ctx := context.WithoutCancel(f.batch[0].ctx)
	var latest time.Time
	for _, w := range f.batch {
		deadline, ok := w.ctx.Deadline()
		if !ok {
			// A caller without a deadline waits for as long as it takes.
			ctx, cancel := context.WithCancel(ctx)
			return ctx, f.whenAllLeft(cancel)
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}

	ctx, cancel := context.WithDeadline(ctx, latest)
	return ctx, f.whenAllLeft(cancel)
}

// whenAllLeft has cancel called some time after the last caller has left. The
// function that it returns calls cancel at once.
func (f *flight) whenAllLeft(cancel context.CancelFunc) context.CancelFunc {
	// Until the last caller leaves and sets it, the timer must not fire.
	timer := time.AfterFunc(math.MaxInt64, cancel)
	stops := []func() bool{timer.Stop}

	var here atomic.Int64
	here.Store(int64(len(f.batch)))
	for _, w := range f.batch {
		stops = append(stops, context.AfterFunc(w.ctx, func() {
			if here.Add(-1) == 0 {
				timer.Reset(afterAll)
			}
		}))
	}

	return func() {
		// The timer is stopped last, since a caller that leaves could set it
		// again.
		for _, stop := range slices.Backward(stops) {
			stop()
		}
		cancel()
	}
}
