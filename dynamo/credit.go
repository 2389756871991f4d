package dynamo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// Credit gives back or takes more, each credit by itself. A bucket that was
// removed is skipped, unless it only expired and more is taken: then it is made
// again, to pay.
//
// What is given back never lifts a bucket above its capacity. A give-back whose
// fate is unknown is dropped, and counted, unless it undoes a charge: that is
// sent under a token, so that it can be sent again.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
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

// crediting is one credit under way.
type crediting struct {
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
	c := &crediting{
		repo: r, key: bucketKey(r.ns, credit.Account.Entity, credit.Account.Resource), ref: ref,
		account: credit.Account, amounts: credit.Amounts, undo: credit.Undo, now: now,
	}
	if r.images.dead(c.key, ref) {
		return nil
	}
	return c.run(ctx)
}

// run applies the credit, deciding again as often as others get in between.
func (c *crediting) run(ctx context.Context) error {
	if c.known = c.repo.images.get(c.key); c.known.image == nil {
		if err := c.read(ctx); err != nil {
			c.drop()
			return err
		}
	}
	var lost error
	for round := range 2 * mostRounds {
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
	return errors.Join(lost, c.insist(ctx))
}

func (c *crediting) read(ctx context.Context) error {
	it, err := c.repo.get(ctx, c.key)
	if err != nil {
		return err
	}
	return c.sees(it)
}

func (c *crediting) sees(it item) error {
	img, err := decodeImage(it)
	if err == nil {
		c.known = c.repo.images.saw(c.key, img, c.known.ref)
	}
	return err
}

// apply tries once, from what is known.
func (c *crediting) apply(ctx context.Context) (done bool, err error) {
	gone := c.known.image == nil || c.known.image.gone(c.base(), c.now)
	if gone || c.ref.over.Load() {
		c.amounts, _ = exact.Takes(&c.amounts)
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
	return c.send(ctx, u)
}

// tokened tells whether the credit travels under a token.
func (c *crediting) tokened() bool {
	_, takes := exact.Takes(&c.amounts)
	return c.undo && !takes
}

func (c *crediting) base() int64 { return max(c.known.image.refill, c.known.seen) }

func (c *crediting) at() int64 { return max(c.now, c.known.now, c.base()) }

// update is the write that applies the credit, nil if there is nothing to do,
// and what it leaves.
func (c *crediting) update() (*exact.Bucket, *update) {
	img := c.known.image
	idle := img.idle(max(c.base(), c.known.now), c.repo.ttl)
	after := img.bucket(&limiter.Account{Limits: img.limits()}, c.base(), idle)
	_ = after.Credit(c.at(), &c.amounts, exact.NoBook)
	u := newUpdate()
	if c.locks() {
		c.lock(u, &after)
	} else {
		c.plain(u)
	}
	if len(u.add) == 0 {
		return nil, nil
	}
	if end := expiry(&after); idle > 0 && !c.tokened() {
		u.setTo(u.attr(attrTTL), number(end))
	} else if idle > 0 && end > img.ttl { // nothing is returned that could be looked at afterwards
		ttl := u.attr(attrTTL)
		u.setTo(ttl, number(end))
		u.when(ttl, "<=", u.number(end))
	}
	return &after, u
}

// locks tells whether something is taken from a limit that may have been full.
func (c *crediting) locks() bool {
	img := c.known.image
	if img.refill < c.known.seen {
		return true
	}
	for i := range c.amounts.Len() {
		name, n := c.amounts.At(i)
		if cell := img.find(name); cell != nil && n < 0 && cell.tokens > c.room(cell) {
			return true
		}
	}
	return false
}

func (c *crediting) room(l *cell) int64 {
	return bucket.Sub(l.rate.Capacity, bucket.Accrued(c.base(), c.at(), l.rate))
}

// plain leaves the refill time alone. What is given back stops at the capacity;
// what is taken has no lower bound.
func (c *crediting) plain(u *update) {
	refill := u.attr(attrRefill)
	u.when("attribute_exists(" + refill + ")")
	for i := range c.amounts.Len() {
		name, n := c.amounts.At(i)
		l := c.known.image.find(name)
		if l == nil || n == 0 {
			continue
		}
		amount := bucket.Thousandths(n)
		tokens := u.attr(bucketAttr(name, fieldTokens))
		u.addTo(u.attr(bucketAttr(name, fieldTotal)), bucket.Sub(0, amount))
		u.sameRate(l)
		switch room := bucket.Sub(l.rate.Capacity, l.tokens); {
		case amount < 0:
			u.addTo(tokens, amount)
			u.when(refill, ">=", u.number(c.base()))
			u.when(tokens, "<=", u.number(c.room(l)))
		case amount <= room:
			u.addTo(tokens, amount)
			u.when(tokens, "<=", u.number(bucket.Sub(l.rate.Capacity, amount)))
		default: // what others take meanwhile must not be lost: then it is not full
			u.addTo(tokens, max(0, room))
			u.when(tokens, "=", u.number(l.tokens))
		}
	}
}

// lock refills every limit, since something is taken from one that may have
// been full.
func (c *crediting) lock(u *update, after *exact.Bucket) {
	img := c.known.image
	refill := u.attr(attrRefill)
	u.when(refill, "=", u.number(img.refill))
	u.setTo(refill, number(max(after.At, img.refill)))
	for i := range img.cells {
		l := &img.cells[i]
		n, _ := amountOf(&c.amounts, l.name)
		delta := bucket.Sub(after.Tokens[i], l.tokens)
		taken := bucket.Sub(0, bucket.Thousandths(n))
		u.change(l, l.rate, delta, taken, max(0, taken), false)
	}
}

// send sends a credit once, or again as far as that is safe.
func (c *crediting) send(ctx context.Context, u *update) (done bool, err error) {
	in := u.input(&c.repo.table, c.key)
	gives := c.gives()
	for try := 0; ; try++ {
		stored, err := c.repo.updateOnce(ctx, in)
		if err == nil {
			return true, c.wrote(ctx, stored)
		}
		switch f := fateOf(err); {
		case f == refused:
			return false, c.sees(refusedItem(err))
		case f == unknown && gives:
			return c.lose(err)
		case f == notExecuted && !again(err), f == unknown && try >= mostUnknown, try >= mostTries, pause(ctx, try+1) != nil:
			c.drop()
			return true, c.repo.explain(err)
		}
	}
}

// lose drops what is given back. What is taken may be sent again.
func (c *crediting) lose(err error) (done bool, lost error) {
	c.repo.dropped.Add(1)
	takes, some := exact.Takes(&c.amounts)
	c.amounts = takes
	return !some, c.repo.explain(err)
}

// sendUndo sends a give-back under a token, so that it may be sent again.
func (c *crediting) sendUndo(ctx context.Context, u *update, after *exact.Bucket) (done bool, err error) {
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{u.item(&c.repo.table, c.key)}, ClientRequestToken: aws.String(newToken()),
	}
	for try := 0; ; try++ {
		_, err := c.repo.once.TransactWriteItems(ctx, in)
		if err == nil {
			c.repo.images.wrote(c.key, c.predicted(after), c.at(), false)
			return true, nil
		}
		f := fateOf(err)
		if f == refused {
			stored, _ := refusedAt(err, 0)
			return false, c.sees(stored)
		}
		if f == notExecuted && !again(err) || try >= mostTries || pause(ctx, try+1) != nil {
			c.repo.dropped.Add(1)
			return true, c.repo.explain(err)
		}
	}
}

// insist takes what is to be taken, whatever others do to the bucket, and drops
// what is to be given back.
func (c *crediting) insist(ctx context.Context) error {
	c.drop()
	u := newUpdate()
	u.when("attribute_exists(" + u.attr(attrRefill) + ")")
	for i := range c.amounts.Len() {
		if name, n := c.amounts.At(i); n < 0 && c.known.image != nil && c.known.image.find(name) != nil {
			u.addTo(u.attr(bucketAttr(name, fieldTokens)), bucket.Thousandths(n))
			u.addTo(u.attr(bucketAttr(name, fieldTotal)), bucket.Sub(0, bucket.Thousandths(n)))
		}
	}
	if len(u.add) == 0 {
		return nil
	}
	in := u.input(&c.repo.table, c.key)
	_, err := c.repo.debit(ctx, func() (item, error) { return c.repo.updateOnce(ctx, in) })
	if err == nil || fateOf(err) == refused {
		return nil
	}
	return c.repo.explain(err)
}
