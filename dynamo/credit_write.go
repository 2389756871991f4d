package dynamo

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// update is the write that applies the credit, nil if there is nothing to do,
// and what it leaves.
func (c *creditOp) update() (*rules.Bucket, *update) {
	img := c.known.image
	idle := c.known.idle(c.repo.ttl)
	after := img.bucket(&limiter.Account{Limits: img.limits()}, c.base(), idle)
	_ = after.Credit(c.at(), &c.amounts, rules.NoBook)
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
func (c *creditOp) locks() bool {
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

func (c *creditOp) room(l *cell) int64 {
	return bucket.Sub(l.rate.Capacity, bucket.Accrued(c.base(), c.at(), l.rate))
}

// plain leaves the refill time alone. What is given back stops at the capacity;
// what is taken has no lower bound.
func (c *creditOp) plain(u *update) {
	refill := u.attr(attrRefill)
	if _, takes := rules.Takes(&c.amounts); takes {
		u.when(refill, ">=", u.number(c.base()))
	} else {
		u.when("attribute_exists(" + refill + ")")
	}
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
func (c *creditOp) lock(u *update, after *rules.Bucket) {
	img := c.known.image
	refill := u.attr(attrRefill)
	u.when(refill, "=", u.number(img.refill))
	u.setTo(refill, number(max(after.At, img.refill)))
	u.sameShape(img)
	for i := range img.cells {
		l := &img.cells[i]
		n, _ := c.amounts.Lookup(l.name)
		delta := bucket.Sub(after.Tokens[i], l.tokens)
		taken := bucket.Sub(0, bucket.Thousandths(n))
		u.change(l, l.rate, delta, taken, max(0, taken), false)
	}
}

// predicted is the image that a give-back left, of which nothing was returned.
func (c *creditOp) predicted(after *rules.Bucket) *image {
	img := *c.known.image
	img.cells = slices.Clone(img.cells)
	locks := c.locks()
	for i := range img.cells {
		l := &img.cells[i]
		if n, _ := c.amounts.Lookup(l.name); locks {
			l.tokens = after.Tokens[i]
		} else {
			l.tokens = max(l.tokens, min(l.rate.Capacity, bucket.Add(l.tokens, bucket.Thousandths(n))))
		}
	}
	if locks {
		img.refill = max(img.refill, after.At)
	}
	return &img
}
