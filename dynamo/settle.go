package dynamo

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// newToken makes a request one that can be sent again.
func newToken() string { return rand.Text() }

// gives tells whether anything is given back.
func (c *crediting) gives() bool {
	for i := range c.amounts.Len() {
		if _, n := c.amounts.At(i); n > 0 {
			return true
		}
	}
	return false
}

// drop counts a give-back that is lost.
func (c *crediting) drop() {
	if c.gives() {
		c.repo.dropped.Add(1)
	}
}

// wrote takes in what a credit left.
func (c *crediting) wrote(ctx context.Context, stored item) error {
	img, err := decodeImage(stored)
	if err != nil || img == nil {
		return err
	}
	c.known = c.repo.images.wrote(c.key, img, c.at(), false)
	c.repo.outlive(ctx, c.key, img)
	return nil
}

// outlive makes a bucket that a write left stay until it is full: the write was
// made from an image, and others may have taken more since.
func (s *store) outlive(ctx context.Context, k key, img *image) {
	if img.ttl == 0 {
		return
	}
	left := img.bucket(&limiter.Account{Limits: img.limits()}, img.refill, 0)
	if end := expiry(&left); end > img.ttl {
		u := newUpdate()
		ttl := u.attr(attrTTL)
		u.setTo(ttl, number(end))
		u.when(ttl, "<", u.number(end))
		_, _ = s.client.UpdateItem(ctx, u.input(&s.table, k)) // whoever was faster has seen to it
	}
}

// predicted is the image that a give-back left, of which nothing was returned.
func (c *crediting) predicted(after *exact.Bucket) *image {
	img := *c.known.image
	img.cells = slices.Clone(img.cells)
	locks := c.locks()
	for i := range img.cells {
		l := &img.cells[i]
		if n, _ := amountOf(&c.amounts, l.name); locks {
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

// rebuild makes a bucket that expired again, to pay what is taken late. One that
// was deleted stays so.
func (c *crediting) rebuild(ctx context.Context) (done bool, err error) {
	expired := c.known.image != nil
	if ttl := c.ref.ttl.Load(); !expired {
		expired = ttl != 0 && ttl*bucket.Milli <= c.now
	}
	if c.amounts.Len() == 0 || !expired {
		return true, nil
	}
	r, account := c.repo, c.account
	p := &payer{repo: r, entity: account.Entity, key: c.key, known: c.known}
	if there, err := p.lookup(ctx, c.now, account); err != nil || !there {
		return true, err
	}
	p.plan = plan{at: c.now, reborn: true, after: exact.New(c.now, p.account, p.idle)}
	_ = p.plan.after.Credit(c.now, &c.amounts, exact.NoBook)
	var taken limiter.Amounts
	for name, n := range c.amounts.All() {
		taken = taken.And(name, -n)
	}
	if c.known.image == nil {
		return c.replace(ctx, p.account, func() (item, error) { return p.put(ctx, &taken) })
	}
	in := p.lock(&taken, false).input(&r.table, c.key)
	return c.replace(ctx, p.account, func() (item, error) { return r.updateOnce(ctx, in) })
}

// lookup finds the facts for a bucket that is to be made again: under the limits
// in force, or those of the lease. It tells whether there is still a namespace
// to make it in.
func (p *payer) lookup(ctx context.Context, now int64, lease *limiter.Account) (there bool, err error) {
	r := p.repo
	keys := []factKey{r.spaceFact(), r.entityFact(p.entity)}
	scopes := limiter.Precedence(p.entity, lease.Resource)
	for _, s := range scopes {
		keys = append(keys, r.configFact(s))
	}
	facts, _, err := r.lookup(ctx, now, 0, keys, nil)
	if err != nil || !facts[0].there {
		return false, err
	}
	p.cascade, p.parent = facts[1].cascade, facts[1].parent
	if p.settleLimits(&limiter.Charge{Resource: lease.Resource}, scopes, facts[2:]) != nil {
		p.use(lease.Limits, lease.Resource, lease.Source)
	}
	return true, nil
}

// replace stores a bucket in the place of the one that expired.
func (c *crediting) replace(ctx context.Context, account *limiter.Account, send func() (item, error)) (done bool, err error) {
	stored, err := c.repo.debit(ctx, send)
	if err == nil {
		img, err := decodeImage(stored)
		if img != nil {
			c.repo.images.charged(c.key, img, c.now, true, account)
		}
		return true, err
	}
	if fateOf(err) == refused {
		return false, c.sees(refusedItem(err))
	}
	return true, c.repo.explain(err)
}
