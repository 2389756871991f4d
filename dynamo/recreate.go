package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// rebuild makes a bucket that expired again, to pay what is taken late. One that
// was deleted stays so.
func (c *creditOp) rebuild(ctx context.Context) (done bool, err error) {
	expired := c.known.image != nil
	if ttl := c.ref.ttl.Load(); !expired {
		expired = ttl != 0 && ttl*bucket.Milli <= c.now
	}
	if c.amounts.Len() == 0 || !expired {
		return true, nil
	}
	r, account := c.repo, c.account
	p := &payer{repo: r, entity: account.Entity, key: c.key, known: c.known}
	if there, err := p.findFacts(ctx, c.now, account); err != nil || !there {
		return true, err
	}
	p.plan = plan{at: c.now, recreate: true, after: rules.New(c.now, p.account, p.idle)}
	_ = p.plan.after.Credit(c.now, &c.amounts, rules.NoBook)
	var taken limiter.Amounts
	for name, n := range c.amounts.All() {
		taken = taken.And(name, -n)
	}
	if c.known.image == nil {
		return c.replace(ctx, p, func() (item, error) { return p.put(ctx, &taken) })
	}
	in := p.lock(&taken, false).input(&r.table, c.key)
	return c.replace(ctx, p, func() (item, error) { return r.updateOnce(ctx, in) })
}

// findFacts finds the facts for a bucket that is to be made again: under the limits
// in force, or those of the lease. It tells whether there is still a namespace
// to make it in.
func (p *payer) findFacts(ctx context.Context, now int64, lease *limiter.Account) (there bool, err error) {
	r := p.repo
	keys := []factKey{r.namespaceFact(), r.entityFact(p.entity)}
	scopes := limiter.Precedence(p.entity, lease.Resource)
	for _, s := range scopes {
		keys = append(keys, r.configFact(s))
	}
	facts, _, err := r.lookup(ctx, now, 0, keys)
	if err != nil || !facts[0].there {
		return false, err
	}
	p.cascade, p.parent = facts[1].cascade, facts[1].parent
	if p.settleLimits(&limiter.Charge{Resource: lease.Resource}, scopes, facts[2:]) != nil {
		if lease.Default {
			p.defaults = lease.Limits
		}
		p.use(lease.Limits, lease.Resource, lease.Source)
	}
	return true, nil
}

// replace stores the bucket of a plan in the place of the one that expired.
func (c *creditOp) replace(ctx context.Context, p *payer, send func() (item, error)) (done bool, err error) {
	stored, err := c.repo.debit(ctx, send)
	if err == nil {
		img, err := decodeImage(stored)
		if img != nil {
			c.repo.images.charged(c.key, img, &c.known, &p.plan.after, true, p.account)
		}
		return true, err
	}
	if resultOf(err) == refused {
		return false, c.sees(refusedItem(err))
	}
	return true, c.repo.explain(err)
}
