package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// maxRounds is how often a charge that others keep overtaking decides again.
const maxRounds = 8

// factsRetryLife is how old facts may be that a caller's mistake is concluded
// from: a limit that another process has just stored is no mistake, and a
// caller that insists on one must not read each time.
const factsRetryLife = time.Second

// consumeOp is a Consume under way.
type consumeOp struct {
	repo   *Repository
	now    int64
	charge *limiter.Charge
	self   *payer
	parent *payer // nil: nobody else pays
}

// Consume takes every amount, or nothing.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.requireNamespace(ctx); err != nil {
		return limiter.Outcome{}, err
	}
	ctx, cancel, err := r.timed(ctx)
	if err != nil {
		return limiter.Outcome{}, err
	}
	defer cancel()
	c := &consumeOp{repo: r, now: now.UnixMilli(), charge: &charge}
	out, err := c.run(ctx)
	if err != nil || !out.Admitted {
		c.undo(ctx)
	}
	if errorCode(err) == "ValidationException" {
		err = c.diagnose(ctx, err)
	}
	return out, r.overdue(ctx, err)
}

// diagnose finds out why the table takes a charge for nonsense: an attribute has
// become something else than a number. That is no outage.
func (c *consumeOp) diagnose(ctx context.Context, err error) error {
	if c.self == nil {
		return err
	}
	for _, p := range c.payers() {
		found := p.read(ctx)
		if _, corrupt := errors.AsType[*limiter.CorruptError](found); corrupt {
			return found
		}
	}
	return err
}

// Peek is the outcome Consume would have.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.requireNamespace(ctx); err != nil {
		return limiter.Outcome{}, err
	}
	ctx, cancel, err := r.timed(ctx)
	if err != nil {
		return limiter.Outcome{}, err
	}
	defer cancel()
	c := &consumeOp{repo: r, now: now.UnixMilli(), charge: &charge}
	fits, err := c.begin(ctx, true)
	if err == nil {
		fits, err = c.confirm(ctx, fits)
	}
	if err != nil {
		return limiter.Outcome{}, r.overdue(ctx, err)
	}
	if fits {
		for _, p := range c.payers() {
			p.pay(&charge.Amounts)
		}
	}
	return c.outcome(fits), nil
}

// payers are those who pay.
func (c *consumeOp) payers() []*payer {
	if c.parent == nil {
		return []*payer{c.self}
	}
	return []*payer{c.self, c.parent}
}

// gather finds both payers. Facts are no older than life; buckets are read if
// they are not known, or if read is set.
func (c *consumeOp) gather(ctx context.Context, life time.Duration, read bool) (err error) {
	c.parent = nil
	if c.self, err = c.repo.payer(ctx, c.now, c.charge.Entity, c.charge, life, read); err != nil {
		return err
	}
	return c.gatherParent(ctx, life, read)
}

// begin is gather and judge. A mistake of the caller's is looked at twice.
func (c *consumeOp) begin(ctx context.Context, read bool) (fits bool, err error) {
	for _, life := range []time.Duration{c.repo.cache.life, factsRetryLife} {
		if err = c.gather(ctx, life, read); err == nil {
			fits, err = c.judge()
		}
		if _, mistaken := errors.AsType[*limiter.InvalidError](err); !mistaken {
			break
		}
	}
	return fits, err
}

// gatherParent finds who else pays, by what is known of the entity.
func (c *consumeOp) gatherParent(ctx context.Context, life time.Duration, read bool) (err error) {
	switch {
	case !c.self.cascade:
		c.parent = nil
	case c.parent == nil || c.parent.entity != c.self.parent:
		c.parent, err = c.repo.payer(ctx, c.now, c.self.parent, c.charge, life, read)
	}
	return err
}

// run charges, deciding again as often as others get in between.
func (c *consumeOp) run(ctx context.Context) (limiter.Outcome, error) {
	fits, err := c.begin(ctx, false)
	for round := 0; err == nil && round < maxRounds; round++ {
		if fits, err = c.confirm(ctx, fits); err != nil {
			break
		}
		if !fits {
			return c.refuse(ctx), nil
		}
		if err = pause(ctx, max(0, round-1)); err != nil {
			break
		}
		var paid bool
		if paid, err = c.send(ctx); err != nil || paid {
			return c.outcome(paid), err
		}
		for _, p := range c.payers() {
			p.keeps = true // what was overtaken is left to the next charge
		}
		fits, err = c.judge()
	}
	if err != nil {
		return limiter.Outcome{}, err
	}
	return c.outcome(false), nil // overtaken too often: a refusal, since an outage is waved through by those who allow one
}

// confirm makes sure of a decision, reading what it hangs on.
func (c *consumeOp) confirm(ctx context.Context, fits bool) (bool, error) {
	for range maxRounds {
		read, err := c.verify(ctx)
		if err != nil || !read {
			return fits, err
		}
		if fits, err = c.judge(); err != nil {
			return false, err
		}
	}
	return false, nil // overtaken too often
}

// judge decides for everybody who has not paid, and tells whether all cover
// what they are asked for.
func (c *consumeOp) judge() (bool, error) {
	views := make([]limiter.Bucket, 0, 2)
	fits := true
	for _, p := range c.payers() {
		if !p.paid {
			p.decide(c.now)
			if err := checkLimits(p.count()); err != nil {
				return false, err
			}
			fits = fits && p.covers(&c.charge.Amounts)
		}
		views = append(views, p.plan.view)
	}
	_, err := rules.Judge(&c.charge.Amounts, views...)
	return fits, err
}

// verify reads what the decision hangs on, if it may be old: stored limits before
// a bucket is made to follow them, a bucket before it refuses. It reports whether
// anything was read, so that a new decision is due.
func (c *consumeOp) verify(ctx context.Context) (bool, error) {
	for _, p := range c.payers() {
		switch {
		case p.paid:
		case p.plan.repair && !p.fresh, p.known.image == nil && !p.placed:
			return true, c.refresh(ctx, p)
		}
	}
	for _, p := range c.payers() {
		if p.paid || p.covers(&c.charge.Amounts) || p.proven(c.now, &c.charge.Amounts) {
			continue
		}
		if !p.verified && p.remembersRefusal(c.now) {
			c.repo.rejections.Add(1)
			return false, nil
		}
		return true, p.read(ctx)
	}
	return false, nil
}

// refresh reads a payer's facts anew. If another entity turns out to pay with
// this one, the one that paid until now gets it back.
func (c *consumeOp) refresh(ctx context.Context, p *payer) error {
	if err := p.refresh(ctx, c.now, c.charge); err != nil || p == c.parent {
		return err
	}
	before := c.parent
	err := c.gatherParent(ctx, c.repo.cache.life, false)
	if before != nil && before != c.parent {
		before.undo(ctx, c)
	}
	return err
}

// outcome is what the payers have come to.
func (c *consumeOp) outcome(admitted bool) limiter.Outcome {
	out := limiter.Outcome{Admitted: admitted, Self: c.self.plan.view}
	if c.parent != nil {
		out.Parent = c.parent.plan.view
	}
	return out
}

// refuse ends a charge that does not fit. Buckets that do not follow the limits
// in force are made to, all the same.
func (c *consumeOp) refuse(ctx context.Context) limiter.Outcome {
	for _, p := range c.payers() {
		if p.paid {
			p.unpay(&c.charge.Amounts)
			continue
		}
		if p.verified && !p.covers(&c.charge.Amounts) {
			c.repo.images.refuse(p.key, p.changes, moment{c.repo.clock(), c.now})
		}
		if p.plan.repair && p.fresh && p.known.image != nil && !p.plan.recreate {
			p.repair(ctx, c.now, c.charge)
		}
	}
	return c.outcome(false)
}

// undo gives back what was paid for a charge that came to nothing.
func (c *consumeOp) undo(ctx context.Context) {
	if c.self == nil {
		return
	}
	for _, p := range c.payers() {
		p.undo(ctx, c)
	}
}

// undo gives back what one payer paid. When the caller's time is up, it goes on,
// and only Close waits for it.
func (p *payer) undo(ctx context.Context, c *consumeOp) {
	if !p.paid {
		return
	}
	p.paid = false
	back := limiter.Credit{Account: p.plan.view.Account, Undo: true}
	for _, l := range back.Account.Limits { // those alone were paid; the bucket may have others by now
		if n, named := c.charge.Amounts.Lookup(l.Name); named {
			back.Amounts = back.Amounts.And(l.Name, n)
		}
	}
	done := make(chan struct{})
	give := func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = p.repo.credit(ctx, c.now, back)
	}
	if !p.repo.detach(give) {
		give()
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// undoTimeout is how long a give-back may take that nobody waits for.
const undoTimeout = limiter.DefaultSettleTimeout
