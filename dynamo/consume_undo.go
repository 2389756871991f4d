package dynamo

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// undo gives back what the payers paid for a charge that failed.
func (c *consumeOp) undo(ctx context.Context) {
	if c.self == nil {
		return
	}
	for _, p := range c.payers() {
		p.undo(ctx, c.now, &c.charge.Amounts)
	}
}

// paidWindows returns for each limit that the charge is judged by the window that
// the plan has paid from, nil if the bucket has no quota.
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
	for _, l := range back.Account.Limits { // the bucket may have other limits by now, which paid nothing
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
	if !p.repo.runInBackground(give) {
		give()
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
