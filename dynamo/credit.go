package dynamo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Credit gives back or takes more, each credit by itself. It skips a bucket that
// was removed, unless the bucket expired and the credit takes more: then it
// creates the bucket again, to pay.
//
// A give-back never lifts a bucket above its capacity. One with an unknown result
// is dropped and counted, unless it undoes a charge: that is sent under a token,
// so that it can be sent again.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := r.requireNamespace(ctx); err != nil {
		return err
	}
	at := r.tableTime(ctx, now)
	ctx = r.withCreditTries(ctx)

	errs := make([]error, len(credits))
	apply := func(i int) { errs[i] = r.credit(ctx, at, credits[i]) }

	// A child and its parent are two buckets, so their requests need not wait
	// for each other. Credits of one bucket would refuse each other's writes.
	if len(credits) == 2 && credits[0].Account.Entity != credits[1].Account.Entity {
		var wg sync.WaitGroup
		wg.Go(func() { apply(1) })
		apply(0)
		wg.Wait()
	} else {
		for i := range credits {
			apply(i)
		}
	}

	return errors.Join(errs...)
}

// creditOp is one running credit.
type creditOp struct {
	repo    *Repository
	key     key
	ref     *ref
	account *limiter.Account
	amounts limiter.Amounts
	// Limits whose amounts change the usage alone.
	spared []string
	// The windows to which give-backs of quotas are bound, nil for none.
	starts []int64
	undo   bool
	// The charge was not admitted. Its usage is reverted, and what it counted
	// for spared limits.
	uncount bool
	// Limits that uncount finds in another window: their amounts change the
	// usage alone.
	late   []string
	now    int64
	cached cachedBucket
	left   []rules.Level // limits that have left, after the credit
}

// credit applies one credit at now.
func (r *Repository) credit(ctx context.Context, now int64, credit limiter.Credit) error {
	return r.applyCredit(ctx, now, credit, false)
}

// uncharge undoes a charge that was not admitted.
func (r *Repository) uncharge(ctx context.Context, now int64, credit limiter.Credit) error {
	return r.applyCredit(ctx, now, credit, true)
}

func (r *Repository) applyCredit(ctx context.Context, now int64, credit limiter.Credit, uncount bool) error {
	ref, ok := credit.Account.Ref.(*ref)
	if !ok {
		return &limiter.InvalidError{
			Field: "account", Value: credit.Account.Entity, Reason: "must come from this store",
		}
	}

	c := &creditOp{
		repo: r, key: bucketKey(r.ns, credit.Account.Entity, credit.Account.Resource), ref: ref,
		account: credit.Account, amounts: credit.Amounts, spared: credit.Spared, starts: credit.Starts,
		undo: credit.Undo, uncount: uncount, now: now,
	}

	// The bucket ended with its entity. A new one of the same name must not get
	// these tokens.
	if r.images.isDeleted(c.key, ref) {
		return nil
	}

	return c.run(ctx)
}

// run applies the credit, and decides again after each refused write.
func (c *creditOp) run(ctx context.Context) error {
	if c.cached = c.repo.images.get(c.key, c.repo.moment(c.now)); c.unsure() {
		it, err := c.repo.get(ctx, c.key)
		if err == nil {
			err = c.observe(it)
		}
		if err != nil {
			c.drop()
			return err
		}
	}

	var lost error
	for round := range 2 * maxRounds {
		// The pauses stay short, to leave time for forceDebit.
		if err := pause.For(ctx, backoff(min(max(0, round-2), 3))); err != nil {
			c.drop()
			return errors.Join(lost, err)
		}

		done, err := c.apply(ctx)
		if done {
			return errors.Join(lost, err)
		}

		if _, corrupt := errors.AsType[*limiter.CorruptError](err); corrupt {
			c.drop()
			return err
		}

		// The give-back is lost. The next round sends the debit.
		if err != nil {
			lost = err
		}
	}

	return errors.Join(lost, c.forceDebit(ctx))
}

// unsure reports whether the cached image may be too old for the credit: there is no
// bucket, it has expired, or it lacks a limit that it had when the lease was made. Others
// may have changed that.
func (c *creditOp) unsure() bool {
	if c.cached.image == nil || c.cached.expired(c.now, c.repo.ttl) {
		return true
	}
	for i := range c.amounts.Len() {
		if name, n := c.amounts.At(i); n != 0 && c.cached.image.findAny(name) == nil {
			return true
		}
	}
	return false
}

// observe takes over the item in a response.
func (c *creditOp) observe(it item) error {
	img, err := decodeImage(it)
	if err == nil {
		c.cached = c.repo.images.observe(c.key, img, &c.cached)
	}
	return err
}

// apply tries once, from the cached image.
func (c *creditOp) apply(ctx context.Context) (done bool, err error) {
	absent, replaced := c.cached.image == nil || c.cached.expired(c.now, c.repo.ttl), c.isReplaced()

	// The bucket of the lease was deleted: it had not expired by its ttl, and
	// the identity of a bucket that replaces an expired one begins as the old
	// one does.
	if replaced && !c.ref.expired(c.now) && lineOf(c.cached.image.life) != lineOf(c.ref.life()) {
		return true, nil
	}

	// The bucket that the lease paid from is gone. What takes its place pays
	// what is taken late, and gets nothing back.
	if absent || replaced || c.ref.over.Load() {
		c.amounts, _ = rules.Takes(&c.amounts)
	}

	if absent {
		return c.recreate(ctx)
	}

	after, u := c.update()
	if u == nil {
		return true, nil
	}

	if c.hasToken() {
		return c.sendUndo(ctx, u, after)
	}
	return c.send(ctx, u, after)
}

// isReplaced reports whether another bucket has taken the place of the account's.
func (c *creditOp) isReplaced() bool {
	life := c.ref.life()
	return life != "" && c.cached.image != nil && c.cached.image.life != life
}

// requireLife requires the bucket that the account paid from, unless that has
// expired, so that its replacement pays.
func (c *creditOp) requireLife(u *update) {
	if !c.isReplaced() {
		u.requireLife(c.ref.life())
	}
}

// recreate creates an expired bucket again, to pay what is taken late. A deleted
// bucket stays deleted.
func (c *creditOp) recreate(ctx context.Context) (done bool, err error) {
	expired := c.cached.image != nil || c.ref.expired(c.now)
	if c.amounts.Len() == 0 || !expired {
		return true, nil
	}

	p := &payer{repo: c.repo, entity: c.account.Entity, key: c.key, cached: c.cached}
	if ok, err := p.resolveLate(ctx, c.now, c.account); err != nil || !ok {
		return true, err
	}

	p.plan = plan{now: c.now, at: c.now, recreate: true, after: rules.New(c.now, p.account, p.idle), spared: c.spared}
	_ = p.plan.after.Credit(c.now, &c.amounts, c.spared, c.account.Limits, rules.NoBook)

	// A write takes positive amounts.
	var taken limiter.Amounts
	for name, n := range c.amounts.All() {
		taken = taken.And(name, -n)
	}

	send := func() (item, error) { return p.put(ctx, &taken) }

	// The table may still have the expired item, which then becomes the new
	// bucket.
	if c.cached.image != nil {
		in := p.lockedWrite(&taken, false).input(&c.repo.table, c.key)
		send = func() (item, error) { return c.repo.updateOnce(ctx, in) }
	}

	stored, err := sendWrite(ctx, maxUnknown, send)
	switch {
	case err == nil:
		img, err := decodeImage(stored)
		if img != nil {
			c.repo.images.observeCharge(c.key, img, &c.cached, &p.plan.after, true, p.account)
		}
		return true, err
	case resultOf(err) == refused:
		return false, c.observe(refusedItem(err))
	}
	return true, c.repo.explain(err)
}

// resolveLate finds the limits for a bucket that is created again: those in force,
// or else those of the lease. It reports whether the namespace still exists.
func (p *payer) resolveLate(ctx context.Context, now int64, lease *limiter.Account) (ok bool, err error) {
	charge := &limiter.Charge{Resource: lease.Resource}
	facts, _, _, err := p.lookup(ctx, now, charge, 0, false, p.repo.getAll)
	if err != nil || !facts[0].exists {
		return false, err
	}

	p.place = facts[1].place
	if p.resolveLimits(charge, facts[firstLevel:]) != nil {
		if lease.Default {
			p.defaults = lease.Limits
		}
		p.setLimits(lease.Limits, lease.Resource, lease.Source)
	}
	return true, nil
}

// hasToken reports whether the credit is sent under a token.
func (c *creditOp) hasToken() bool {
	_, takes := rules.Takes(&c.amounts)
	return c.undo && !takes
}

// gives reports whether the credit gives anything back.
func (c *creditOp) gives() bool {
	for i := range c.amounts.Len() {
		if _, n := c.amounts.At(i); n > 0 {
			return true
		}
	}
	return false
}

// drop counts a lost give-back.
func (c *creditOp) drop() {
	if c.gives() {
		c.repo.dropped.Add(1)
	}
}

// base returns the time up to which the image is refilled.
func (c *creditOp) base() int64 { return max(c.cached.image.refill, c.cached.maxRefill) }

// at returns the time of the credit, not before that of earlier writes.
func (c *creditOp) at() int64 { return max(c.now, c.cached.lastWrite, c.base()) }
