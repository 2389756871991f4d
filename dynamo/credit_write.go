package dynamo

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// send sends a credit without a token.
func (c *creditOp) send(ctx context.Context, u *update, after *rules.Bucket) (done bool, err error) {
	in := u.input(&c.repo.table, c.key)
	gives, unknowns := c.gives(), maxUnknown

	// A try with an unknown result is the last, so it may wait for its
	// response.
	if gives {
		ctx, unknowns = withoutTryTimeout(ctx), 0
	}

	stored, err := sendWrite(ctx, unknowns, func() (item, error) { return c.repo.updateOnce(ctx, in) })
	if err == nil {
		return true, c.applyResponse(ctx, stored, after)
	}

	switch result := resultOf(err); {
	case result == refused:
		return false, c.observe(refusedItem(err))
	// The give-back may have been executed and is not sent again. What is taken
	// may be.
	case result == unknown && gives:
		c.repo.dropped.Add(1)
		takes, some := rules.Takes(&c.amounts)
		c.amounts = takes
		return !some, c.repo.explain(err)
	}

	c.drop()
	return true, c.repo.explain(err)
}

// sendUndo sends a give-back under a token, so that it may be sent again. After a
// refusal the caller builds it anew under another token, but only if no try may
// still arrive: both would be executed.
func (c *creditOp) sendUndo(ctx context.Context, u *update, after *rules.Bucket) (done bool, err error) {
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems:      []types.TransactWriteItem{u.item(&c.repo.table, c.key)},
		ClientRequestToken: aws.String(rand.Text()),
	}

	// The error of a try that may still arrive.
	var pending error
	_, err = sendWrite(ctx, maxTries, func() (item, error) {
		_, err := c.repo.once.TransactWriteItems(ctx, in)
		if err != nil && resultOf(err) == unknown {
			pending = err
		}
		return nil, err
	})

	switch {
	case err == nil:
		c.repo.images.observeWrite(c.key, c.predict(after), &c.cached, after, false)
		return true, nil
	case resultOf(err) != refused:
		pending = err
	// No try may still arrive, so the caller may build the write anew.
	case pending == nil:
		stored, _ := refusedAt(err, 0)
		return false, c.observe(stored)
	}

	c.repo.dropped.Add(1)
	return true, c.repo.explain(pending)
}

// applyResponse takes over the item that a credit left.
func (c *creditOp) applyResponse(ctx context.Context, stored item, after *rules.Bucket) error {
	img, err := decodeImage(stored)
	if err != nil || img == nil {
		return err
	}

	c.cached = c.repo.images.observeWrite(c.key, img, &c.cached, after, false)
	c.repo.extendTTL(ctx, c.key, img, after.At)
	return nil
}

// forceDebit takes what the credit takes, whatever others do to the bucket, and
// drops what it gives back.
func (c *creditOp) forceDebit(ctx context.Context) error {
	c.drop()
	u := newUpdate()

	// The bucket need only exist, so that others cannot refuse this write again
	// and again.
	u.when("attribute_exists(" + u.attr(attrRefill) + ")")
	for i := range c.amounts.Len() {
		if name, n := c.amounts.At(i); n < 0 && c.cached.image != nil && c.cached.image.findAny(name) != nil {
			if !c.spares(name) {
				u.addTo(u.attr(bucketAttr(name, fieldTokens)), bucket.Thousandths(n))
			}
			u.addTo(u.attr(bucketAttr(name, fieldTotal)), bucket.Sub(0, bucket.Thousandths(n)))
		}
	}

	if len(u.add) == 0 {
		return nil
	}

	c.requireLife(u)
	in := u.input(&c.repo.table, c.key)
	_, err := sendWrite(ctx, maxUnknown, func() (item, error) { return c.repo.updateOnce(ctx, in) })

	// After a refusal there is no bucket to take from.
	if err == nil || resultOf(err) == refused {
		return nil
	}
	return c.repo.explain(err)
}

// update returns the write that applies the credit, nil if there is nothing to
// do, and the bucket that it leaves.
func (c *creditOp) update() (*rules.Bucket, *update) {
	img := c.cached.image
	idle := c.cached.idle(c.repo.ttl)
	after := img.bucket(&limiter.Account{Limits: img.limits()}, c.base(), idle)
	c.bindToWindows(&after)
	refillRates(&after, c.at())
	c.creditLeft(&after)
	_ = after.Credit(c.now, &c.amounts, slices.Concat(c.spared, c.late), c.account.Limits, rules.NoBook)

	u := newUpdate()
	if c.locks() {
		c.lockedWrite(u, &after)
	} else {
		c.plainWrite(u)
	}

	c.uncountSpared(u)
	c.requireLife(u)
	if len(u.add) == 0 {
		return nil, nil
	}

	// A credit without a token sets the ttl, and extendTTL corrects it from the
	// response. A transaction returns no item, so a credit under a token moves
	// the ttl itself, and never back.
	if end := expiry(&after); idle > 0 && !c.hasToken() {
		u.setTo(u.attr(attrTTL), number(end))
	} else if idle > 0 && end > img.ttl {
		ttl := u.attr(attrTTL)
		u.setTo(ttl, number(end))
		u.when(ttl, "<=", u.number(end))
	}

	return &after, u
}

// creditLeft applies the credit to limits that have left and are not full, and to those
// that the bucket has forgotten. One that it fills stays until the next write, so that its
// usage is counted.
func (c *creditOp) creditLeft(b *rules.Bucket) {
	b.Left = b.LeftAt(c.at(), c.now)
	b.Recall(c.now, &c.amounts, slices.Concat(c.spared, c.late), c.account.Limits)

	c.left = slices.Clone(b.Left)
	for i := range c.left {
		v := &c.left[i]
		if n, _ := c.amounts.Lookup(v.Limit.Name); !c.spares(v.Limit.Name) {
			*v = v.Give(bucket.Thousandths(n))
		}
	}
}

// bindToWindows leaves out what the credit must not give back because its window has
// ended. If the charge was not admitted, its usage is reverted all the same.
func (c *creditOp) bindToWindows(b *rules.Bucket) {
	bound := b.InWindow(&limiter.Credit{Account: c.account, Amounts: c.amounts, Starts: c.starts}, c.now)
	if !c.uncount {
		c.amounts = bound
		return
	}

	c.late = nil
	for name := range c.amounts.All() {
		if _, inWindow := bound.Lookup(name); !inWindow {
			c.late = append(c.late, name)
		}
	}
}

// spares reports whether the credit changes the usage of a limit and not its tokens.
func (c *creditOp) spares(limit string) bool {
	return slices.Contains(c.spared, limit) || slices.Contains(c.late, limit)
}

// uncountSpared reverts what a charge that was not admitted counted for spared limits.
func (c *creditOp) uncountSpared(u *update) {
	if !c.uncount {
		return
	}
	for _, name := range c.spared {
		if c.cached.image.findAny(name) != nil {
			u.addTo(u.attr(bucketAttr(name, fieldSpared)), -1)
		}
	}
}

// changesUsage reports whether the credit has an amount for a limit of the bucket.
func (c *creditOp) changesUsage() bool {
	for i := range c.amounts.Len() {
		if name, n := c.amounts.At(i); n != 0 && c.cached.image.findAny(name) != nil {
			return true
		}
	}
	return false
}

// recalls reports whether the credit takes from a limit that the bucket has forgotten.
func (c *creditOp) recalls() bool {
	return slices.ContainsFunc(c.left, func(v rules.Level) bool {
		l := c.cached.image.findAny(v.Limit.Name)
		return l == nil || l.limit() != v.Limit
	})
}

// locks reports whether the credit takes from a limit that may have filled up or that
// the bucket has forgotten, or finds a quota whose step is due, or whose tokens do not
// belong to its capacity or show less than its real use, or a limit that has left and is
// full.
func (c *creditOp) locks() bool {
	img := c.cached.image
	if c.recalls() {
		return true
	}

	// The condition of a plain write fails on a refill time that has gone back.
	if img.refill < c.cached.maxRefill || (img.due(c.now) || len(c.left) != len(img.left)) && c.changesUsage() {
		return true
	}

	for i := range c.amounts.Len() {
		name, n := c.amounts.At(i)
		found := img.findAny(name)
		if found == nil || c.spares(name) {
			continue
		}
		if found.shift != 0 || n < 0 && found.tokens > c.ceiling(found) || found.uncovers(bucket.Thousandths(n)) {
			return true
		}
	}

	return false
}

// ceiling returns the most tokens that a limit may hold if it has not filled up
// between the image's refill and the credit.
func (c *creditOp) ceiling(l *storedLimit) int64 { return l.ceiling(c.base(), c.at()) }

// plainWrite leaves the refill time alone. What it gives back stops at the
// capacity; what it takes has no lower bound.
func (c *creditOp) plainWrite(u *update) {
	refill := u.attr(attrRefill)

	// From an earlier refill time, more would have accrued than the ceilings
	// below allow for. A give-back that stops at the capacity needs no ceiling.
	if _, takes := rules.Takes(&c.amounts); takes {
		u.when(refill, ">=", u.number(c.base()))
	} else {
		u.when("attribute_exists(" + refill + ")")
	}

	quota := false
	for i := range c.amounts.Len() {
		name, n := c.amounts.At(i)
		l := c.cached.image.findAny(name)
		if l == nil || n == 0 {
			continue
		}
		amount := bucket.Thousandths(n)
		tokens := u.attr(bucketAttr(name, fieldTokens))
		u.addTo(u.attr(bucketAttr(name, fieldTotal)), bucket.Sub(0, amount))
		u.requireRate(l)
		quota = quota || l.every != 0

		switch room := bucket.Sub(l.rate.Capacity, l.tokens); {
		case c.spares(name):
			u.when("attribute_exists(" + tokens + ")")
		case amount < 0:
			u.addTo(tokens, amount)
			u.when(tokens, "<=", u.number(c.ceiling(l)))
		case amount <= room:
			u.addTo(tokens, amount)
			u.when(tokens, "<=", u.number(bucket.Sub(l.rate.Capacity, amount)))
		// If others take meanwhile, there is room for more. The write is then
		// refused, and the next round decides from their image.
		default:
			u.addTo(tokens, max(0, room))
			u.when(tokens, "=", u.number(l.tokens))
		}
	}

	if quota {
		u.requireShape(c.cached.image)
	}
}

// lockedWrite refills every limit, since it takes from one that may have filled
// up.
func (c *creditOp) lockedWrite(u *update, after *rules.Bucket) {
	img := c.cached.image
	refill := u.attr(attrRefill)
	u.when(refill, "=", u.number(img.refill))
	u.setTo(refill, number(max(after.At, img.refill)))

	shape := u.requireShape(img)
	for i := range img.stored {
		l := &img.stored[i]
		m := l.stay(after.Level(i))
		c.change(u, l, &m)
	}

	dropped := false
	for i := range img.left {
		l := &img.left[i]
		v := slices.IndexFunc(c.left, func(v rules.Level) bool { return v.Limit.Name == l.name })
		if v < 0 {
			// If the limit was charged since, it is not full, and has to stay.
			u.when(u.attr(bucketAttr(l.name, fieldTokens)), "=", u.number(l.tokens))
			u.dropLimit(l)
			dropped = true
			continue
		}

		m := l.leave(c.left[v])
		c.change(u, l, &m)
	}

	// A write from an older image does not know which limits came back or went.
	// The new shape refuses it.
	if u.recallLimits(img, c.left) || dropped {
		u.addTo(shape, 1)
	}
}

// change moves a limit, and counts what the credit changes of its usage.
func (c *creditOp) change(u *update, l *storedLimit, m *move) {
	var n int64
	n, m.named = c.amounts.Lookup(l.name)
	if m.used = bucket.Sub(0, bucket.Thousandths(n)); !c.spares(l.name) {
		m.taken = max(0, m.used)
	}
	u.changeLimit(l, m)
}

// predict returns the image that a give-back under a token leaves: a transaction
// returns none.
func (c *creditOp) predict(after *rules.Bucket) *image {
	img := *c.cached.image
	img.stored, img.left = slices.Clone(img.stored), slices.Clone(img.left)

	locks := c.locks()
	for l := range img.all() {
		// Tokens above a capacity that Python has lowered stay.
		if n, _ := c.amounts.Lookup(l.name); !locks && !c.spares(l.name) {
			l.tokens = max(l.tokens, min(l.rate.Capacity, bucket.Add(l.tokens, bucket.Thousandths(n))))
		}
	}

	if !locks {
		return &img
	}

	for i := range img.stored {
		img.stored[i].set(after.Level(i))
	}

	if len(c.left) != len(img.left) {
		img.shape++
	}

	img.left = slices.DeleteFunc(img.left, func(l storedLimit) bool {
		return !slices.ContainsFunc(c.left, func(v rules.Level) bool { return v.Limit.Name == l.name })
	})
	for i, v := range c.left {
		img.left[i].set(v)
	}

	img.refill = max(img.refill, after.At)
	return &img
}
