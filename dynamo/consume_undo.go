package dynamo

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// undo gives back what the payers paid for a charge that failed.
func (c *consumeOp) undo(ctx context.Context) {
	for _, p := range c.payers {
		p.undo(ctx, c.now, &c.charge.Amounts)
	}
}

// paidWindows returns the window that each limit of the charge has paid from,
// or nil if the bucket has no quota.
func (p *payer) paidWindows() []int64 {
	after := &p.plan.after
	if after.Starts == nil {
		return nil
	}

	windows := make([]int64, len(p.plan.view.Account.Limits))
	for i, l := range p.plan.view.Account.Limits {
		if j := slices.IndexFunc(after.Account.Limits, func(own limiter.Limit) bool {
			return own.Name == l.Name
		}); j >= 0 {
			windows[i] = after.Starts[j]
		}
	}

	return windows
}

// undoTimeout is the time for a give-back whose caller does not wait for it.
const undoTimeout = limiter.DefaultSettleTimeout

// undo gives back what the payer paid. If ctx ends, the give-back continues in
// the background, and Close waits for it.
func (p *payer) undo(ctx context.Context, now int64, amounts *limiter.Amounts) {
	if !p.paid {
		return
	}
	p.paid = false

	back := limiter.Credit{Account: p.plan.view.Account, Spared: p.plan.spared, Starts: p.paidWindows(), Undo: true}

	// The plan's limits have paid, and no others that the bucket may have.
	for _, l := range back.Account.Limits {
		if n, named := amounts.Lookup(l.Name); named {
			back.Amounts = back.Amounts.And(l.Name, n)
		}
	}

	done := make(chan struct{})
	give := func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = p.repo.uncharge(ctx, now, back)
	}

	// Once Close waits, no work may start in the background.
	if !p.repo.runInBackground(give) {
		give()
	}

	select {
	case <-done:
	case <-ctx.Done():
	}
}
