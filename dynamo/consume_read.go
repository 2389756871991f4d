package dynamo

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// verify reads what a decision rests on and judges again, until nothing stale is
// left. It returns the decision.
func (c *consumeOp) verify(ctx context.Context, fits bool) (bool, error) {
	// Each look reads for one entity of the chain.
	for range maxRounds * max(1, len(c.chain)) {
		read, err := c.readStale(ctx)
		if err != nil || !read {
			return fits, err
		}
		if fits, err = c.judge(); err != nil {
			return false, err
		}
	}

	// A refusal would name a shadow limit, which does not refuse.
	if fits && c.namesShadow() {
		return false, c.repo.explain(errBusy)
	}

	// Others change the buckets faster than they can be read. An error would
	// count as an outage, which callers that fail open admit.
	return false, nil
}

// readStale reads the first stale record that the decision rests on: limits
// before a bucket follows them, a bucket before it refuses. It reports whether it
// read anything.
func (c *consumeOp) readStale(ctx context.Context) (bool, error) {
	for _, p := range c.chain {
		switch {
		case p.exempt:
			// No write meets the copy of a switch in its bucket.
			if c.switchIsOld(ctx, p) {
				return true, c.readSwitch(ctx, p)
			}
		case p.paid:
		// A repair needs records of one moment. A new bucket needs a namespace
		// that is not being purged.
		case p.plan.repair && !p.fresh, p.cached.image == nil && !p.namespaceChecked:
			return true, c.refresh(ctx, p)
		case p.mayFollow():
			return true, c.readLevels(ctx, p)
		case c.mayMissSwitch(ctx, p):
			return true, c.readSwitch(ctx, p)
		}
	}

	for _, p := range c.payers {
		if p.paid || p.covers(&c.charge.Amounts) || p.provesRefusal(c.now, &c.charge.Amounts) {
			continue
		}

		if !p.verified && p.refusedRecently(c.now) {
			c.repo.rejections.Add(1)
			return false, nil
		}
		return true, c.readBuckets(ctx, p)
	}
	return false, nil
}

// mayMissSwitch reports whether nothing in this call shows a switch of the payer: its
// bucket has none of the limits, so that no write meets the copy in it.
func (c *consumeOp) mayMissSwitch(ctx context.Context, p *payer) bool {
	return c.switchIsOld(ctx, p) && !rules.Pays(p.account.Limits, &c.charge.Amounts) &&
		p.mode(&c.charge.Amounts) != modeLocked
}

// switchIsOld reports whether the switches of a payer may be older than a charge allows
// that nothing else shows them to.
func (c *consumeOp) switchIsOld(ctx context.Context, p *payer) bool {
	return !p.offRead && !c.charge.Late && c.repo.factLife(ctx) > maxFactAge
}

// readSwitch reads the switches of a payer's entity, unless they are cached and no
// older than maxFactAge.
func (c *consumeOp) readSwitch(ctx context.Context, p *payer) error {
	facts, _, err := c.repo.lookup(ctx, c.now, maxFactAge, []factKey{c.repo.switchFact(p.entity)})
	if err != nil {
		return err
	}

	p.off, p.offRead = facts[0].off.Refusing([]string{p.entity}, c.charge.Resource), true
	return c.checkSwitch(p)
}

// readLevels looks up the limits in force of a payer whose bucket has other quotas
// than the override.
func (c *consumeOp) readLevels(ctx context.Context, p *payer) error {
	levels, _, err := c.repo.lookup(ctx, c.now, c.repo.factLife(ctx), p.appendLevels(nil, c.charge.Resource))
	if err != nil {
		return err
	}

	p.stored = &c.charge.Defaults
	if i := firstWithLimits(levels); i >= 0 {
		p.stored = &levels[i].config.Limits
	}
	return nil
}

// readBuckets reads the bucket of a payer that refuses, and with it those of the other
// payers: a copy of a switch in one precedes the refusal.
func (c *consumeOp) readBuckets(ctx context.Context, refusing *payer) error {
	var read []*payer
	var keys []key
	for _, p := range c.payers {
		if p == refusing || !p.paid && !p.verified && p.cached.image != nil {
			read, keys = append(read, p), append(keys, p.key)
		}
	}

	if len(read) == 1 {
		return refusing.readBucket(ctx)
	}

	items, err := c.repo.getAll(ctx, keys)
	if err != nil {
		return err
	}

	for _, p := range read {
		img, err := decodeImage(items[p.key])
		if err != nil {
			return err
		}
		p.observe(img)
	}
	return nil
}

// refresh reads a payer's records anew. If its entity has got another parent since,
// those that pay no more get back what they paid.
func (c *consumeOp) refresh(ctx context.Context, p *payer) error {
	err := p.refresh(ctx, c.now, c.charge)

	// A level that is off precedes other errors, such as missing limits.
	if off := c.checkSwitch(p); off != nil {
		return off
	}

	if err != nil {
		return err
	}

	before := c.payers
	err = c.climb(ctx, c.repo.cache.life, false)
	for _, p := range before {
		if !slices.Contains(c.payers, p) {
			p.undo(ctx, c.now, &c.charge.Amounts)
		}
	}
	return err
}
