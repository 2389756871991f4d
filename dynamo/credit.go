package dynamo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Credit gives back or takes more, each credit by itself. A bucket that was
// removed is skipped, unless it only expired and more is taken: then it is made
// again, to pay.
//
// What is given back never lifts a bucket above its capacity. A give-back whose
// fate is unknown is dropped, and counted, unless it undoes a charge: that is
// sent under a token, so that it can be sent again.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := r.requireNamespace(ctx); err != nil {
		return err
	}
	ctx = r.settling(ctx)
	errs := make([]error, len(credits))
	apply := func(i int) { errs[i] = r.credit(ctx, now.UnixMilli(), credits[i]) }
	if len(credits) == 2 && credits[0].Account.Entity != credits[1].Account.Entity { // a child and its parent
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

// creditOp is one credit under way.
type creditOp struct {
	repo    *Repository
	key     key
	ref     *ref
	account *limiter.Account
	amounts limiter.Amounts
	undo    bool
	now     int64
	known   known
}

func (r *Repository) credit(ctx context.Context, now int64, credit limiter.Credit) error {
	ref, ok := credit.Account.Ref.(*ref)
	if !ok {
		return &limiter.InvalidError{Field: "account", Value: credit.Account.Entity, Reason: "was not made by this store"}
	}
	c := &creditOp{
		repo: r, key: bucketKey(r.ns, credit.Account.Entity, credit.Account.Resource), ref: ref,
		account: credit.Account, amounts: credit.Amounts, undo: credit.Undo, now: now,
	}
	if r.images.dead(c.key, ref) {
		return nil
	}
	return c.run(ctx)
}

// run applies the credit, deciding again as often as others get in between.
func (c *creditOp) run(ctx context.Context) error {
	if c.known = c.repo.images.get(c.key, moment{c.repo.clock(), c.now}); c.unsure() {
		if err := c.read(ctx); err != nil {
			c.drop()
			return err
		}
	}
	var lost error
	for round := range 2 * maxRounds {
		if err := pause(ctx, min(max(0, round-2), 3)); err != nil { // there has to be time to insist
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
		if err != nil { // the give-back is lost, what is taken is not
			lost = err
		}
	}
	return errors.Join(lost, c.forceDebit(ctx))
}

// unsure reports whether what is remembered would drop something: there is no
// bucket, its time is over, or it lacks a limit, which the bucket had when the
// lease was made. Others may have changed that.
func (c *creditOp) unsure() bool {
	if c.known.image == nil || c.known.image.gone(c.base(), c.now) {
		return true
	}
	for i := range c.amounts.Len() {
		if name, n := c.amounts.At(i); n != 0 && c.known.image.find(name) == nil {
			return true
		}
	}
	return false
}

func (c *creditOp) read(ctx context.Context) error {
	it, err := c.repo.get(ctx, c.key)
	if err != nil {
		return err
	}
	return c.sees(it)
}

func (c *creditOp) sees(it item) error {
	img, err := decodeImage(it)
	if err == nil {
		c.known = c.repo.images.saw(c.key, img, &c.known)
	}
	return err
}

// apply tries once, from what is known.
func (c *creditOp) apply(ctx context.Context) (done bool, err error) {
	gone := c.known.image == nil || c.known.image.gone(c.base(), c.now)
	if gone || c.ref.over.Load() {
		c.amounts, _ = rules.Takes(&c.amounts)
	}
	if gone {
		return c.rebuild(ctx)
	}
	after, u := c.update()
	if u == nil {
		return true, nil
	}
	if c.tokened() {
		return c.sendUndo(ctx, u, after)
	}
	return c.send(ctx, u, after)
}

// tokened tells whether the credit travels under a token.
func (c *creditOp) tokened() bool {
	_, takes := rules.Takes(&c.amounts)
	return c.undo && !takes
}

// gives tells whether anything is given back.
func (c *creditOp) gives() bool {
	for i := range c.amounts.Len() {
		if _, n := c.amounts.At(i); n > 0 {
			return true
		}
	}
	return false
}

// drop counts a give-back that is lost.
func (c *creditOp) drop() {
	if c.gives() {
		c.repo.dropped.Add(1)
	}
}

func (c *creditOp) base() int64 { return max(c.known.image.refill, c.known.seen) }

func (c *creditOp) at() int64 { return max(c.now, c.known.now, c.base()) }
