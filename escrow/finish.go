package escrow

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// finish shares what the flight has among its callers, in order of arrival, and
// answers them. What is left over goes into the pot or back to the store.
func (f *flight) finish(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()

	have := make([]int64, len(f.slots))
	for j := range have {
		have[j] = f.reserved[j] + f.granted[j]
	}

	var admitted, refused []*waiter
	for _, w := range f.batch {
		switch {
		// The flight has learned of other accounts, which lack a limit of this
		// charge.
		case !f.serves(&w.charge):
			w.answer(result{alone: true})
		case w.over.Load():
			f.spare(&w.charge.Amounts)
		case f.pay(have, w, true):
			admitted = append(admitted, w)
			f.spend(&w.charge.Amounts)
		default:
			refused = append(refused, w)
		}
	}

	if len(f.batch) > 1 {
		f.shared.Add(int64(len(f.batch)))
	}

	// The rest is in the pot before anyone is answered, so that each answer
	// shows it as available.
	surplus := f.keep(have)
	if f.moved {
		f.awaitReturns(ctx, surplus)
	}

	f.refuseAll(refused)
	f.admit(admitted)
}

// spare reduces the extra by the share of a caller that has left: a pot holds at
// most what it spent.
func (f *flight) spare(amounts *limiter.Amounts) {
	for j, n := range f.amounts(amounts) {
		n = min(n, f.extra[j])
		f.extra[j] -= n
		f.release(&f.accounts, j, n)
	}
}

// awaitReturns waits until the store has the tokens back that a change of accounts
// left over, so that the next charge finds them. It adds them to the balances.
func (f *flight) awaitReturns(ctx context.Context, surplus []int64) {
	// The pot serves other callers while the tokens are on their way.
	// An error says that ctx has ended, and then the callers have left.
	f.mu.Unlock()
	_ = f.janitor.flush(ctx)
	f.mu.Lock()

	// The last answer shares these slices, and refusals start from it.
	for i := range f.image.payers {
		found := &f.image.payers[i]
		found.tokens = slices.Clone(found.tokens)
	}

	for j, n := range surplus {
		for _, at := range f.slots[j].places {
			f.image.payers[at.payer].tokens[at.limit] += bucket.Thousandths(n)
		}
	}
	f.image.later = nil
}

// keep puts the rest of a flight where it belongs: reserved tokens into their
// grants, new ones up to the extra into a grant of their own, and others back to
// the store.
func (f *flight) keep(rest []int64) (surplus []int64) {
	held, surplus, old := make([]int64, len(rest)), make([]int64, len(rest)), make([]int64, len(rest))
	for j, n := range rest {
		// Reserved tokens are spent first, since their holds end sooner. So
		// what is left over is new, up to what the store granted.
		fresh := min(n, f.granted[j])
		held[j] = min(fresh, f.extra[j])
		surplus[j], old[j] = fresh-held[j], n-fresh
	}

	f.unclaim(old)
	if slices.ContainsFunc(surplus, positive) {
		f.giveBack(&f.accounts, surplus)
	}

	// The callers may have spent even the extra. Its grant is kept all the
	// same: give-backs may fill it up to its size, and its end releases the
	// reservation.
	if slices.ContainsFunc(f.extra, positive) {
		g := &grant{
			accounts: f.accounts, windows: f.windows, pots: f.pots, store: f.store, at: f.at,
			until: f.windows.end(&f.accounts, f.extra),
			held:  make([]int64, len(held)), loans: f.lenders(&f.accounts, f.windows), size: f.extra,
		}

		f.grants = append(f.grants, g)
		f.arrange()
		for j, n := range held {
			f.put(g, j, n)
		}

		// After Close nothing may stay in a pot.
		if !f.janitor.watch(f.pot, g) {
			f.end(g)
		}
	}
	return surplus
}

func positive(n int64) bool { return n > 0 }

// refuseAll answers callers whose charge did not fit, with what the pot holds as
// available. A caller that only shadow limits refuse goes to the store alone.
func (f *flight) refuseAll(callers []*waiter) {
	if len(callers) == 0 {
		return
	}

	res := result{err: f.err}
	if f.err == nil {
		res.outcome = f.last
		res.outcome.Admitted = false
		// show changes the tokens, and the last answer shares them.
		res.outcome.Payers = cloneBuckets(res.outcome.Payers)
		// The balances of other accounts are in another order, and the pot holds
		// nothing of them.
		if f.same(&f.last) {
			f.show(&res.outcome)
		}
	}

	for _, w := range callers {
		answer := res
		if f.err == nil {
			answer.outcome = f.withOthers(res.outcome, &w.charge.Amounts, f.pot)
			answer.through = f.sparesOnly(&w.charge, &res.outcome)
		}
		w.answer(answer)
	}
}

// admit answers callers whose charge was paid. The share of one that has left goes
// into the pot, and what that cannot keep back to the store.
func (f *flight) admit(callers []*waiter) {
	if len(callers) == 0 {
		return
	}

	out := f.outcome(true, f.at.now)
	for _, w := range callers {
		if !w.answer(result{outcome: out}) {
			f.returnShare(&w.charge.Amounts)
		}
	}
}

// returnShare undoes the payment of a caller that has left.
func (f *flight) returnShare(amounts *limiter.Amounts) {
	tokens := f.amounts(amounts)
	for j, n := range tokens {
		kept := f.deposit(j, n)
		// What goes to the store was not spent either. deposit has counted the
		// rest.
		f.back[j].add(f.latest.machine, f.hold, n-kept)
		tokens[j] = n - kept
	}

	f.giveBack(&f.accounts, tokens)
}
