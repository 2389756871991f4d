package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A fill is one transaction of the bucket, the event and, for a top-up, its ID. It
// is made from an image and limits that were read at one moment. If the bucket has
// changed since, the fill is made again. The transaction has a token, so that a try
// whose response was lost is executed once. A later transaction of the same call
// can meet an earlier one only if that is still on its way: the ID of a top-up then
// refuses the second, and a reset that is executed twice resets.

// fillOp is a running Fill.
type fillOp struct {
	repo  *Repository
	now   int64
	fill  *limiter.Fill
	id    string // of the event
	event types.TransactWriteItem
	payer *payer
}

// maxFills is how often a fill is made again after others changed the bucket.
const maxFills = 2 * maxRounds

// Fill resets or tops up a bucket, with its event. It reports whether it was carried
// out: not if the ID of a top-up was used before.
func (r *Repository) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return false, err
	}

	c := &fillOp{repo: r, now: r.tableTime(ctx, now), fill: &f, id: ev.ID}
	if used, err := c.isUsed(ctx); err != nil || used {
		return false, err
	}

	for try := range maxFills {
		// A single charge that came between is over, so the first repetition
		// follows at once.
		if err := pause.For(ctx, backoff(min(max(0, try-1), 3))); err != nil {
			return false, err
		}

		write, err := c.prepare(ctx)
		if err != nil {
			return false, err
		}
		if write == nil {
			continue
		}

		if c.event, err = r.auditPut(ctx, rules.FillEvent(ev, &f, c.payer.plan.view.Account.Limits)); err != nil {
			return false, err
		}

		if err = c.send(ctx, *write); err == nil {
			c.observe(ctx)
			return true, nil
		}

		if stored, used := refusedAt(err, topUpWrite); used {
			// The ID may be of an earlier try of this call, which was executed
			// although its response was lost.
			if done = stored.text(attrEventID) == c.id; done {
				c.observe(ctx)
			}
			return done, nil
		}

		if resultOf(err) != refused {
			return false, r.explain(err)
		}
	}

	return false, fmt.Errorf("bucket of entity %s and resource %s: others changed it %d times meanwhile; try again",
		f.Entity, f.Resource, maxFills)
}

// isUsed reports whether the ID of a top-up was used within its life.
func (c *fillOp) isUsed(ctx context.Context) (bool, error) {
	if c.fill.ID == "" {
		return false, nil
	}
	it, err := c.repo.get(ctx, c.topUpKey())
	if err != nil || it == nil {
		return false, err
	}

	// The time in the attribute decides, because the table removes items late.
	until, err := it.number(attrUntil)
	return until > c.now, err
}

func (c *fillOp) topUpKey() key {
	return topUpKey(c.repo.ns, c.fill.Entity, c.fill.Resource, c.fill.ID)
}

// prepare reads the bucket and its limits, and returns the write that fills it, or
// the check that there is none. It returns nil if others changed the bucket
// meanwhile.
func (c *fillOp) prepare(ctx context.Context) (*types.TransactWriteItem, error) {
	r, f := c.repo, c.fill
	p := &payer{repo: r, entity: f.Entity, key: bucketKey(r.ns, f.Entity, f.Resource)}
	c.payer = p
	p.cached = r.images.get(p.key, r.moment(c.now))

	charge := &limiter.Charge{Entity: f.Entity, Resource: f.Resource, Defaults: f.Defaults}
	if err := p.refresh(ctx, c.now, charge); err != nil && !errors.Is(err, limiter.ErrNoLimits) {
		return nil, err
	}

	if p.noLimits != nil {
		// An expired bucket, or none, has no limits of its own to be filled up
		// to.
		if !p.keepOwnLimits(c.now) {
			return nil, p.noLimits
		}
	} else if !p.fresh {
		// The records and the image are not of one moment, so the fill is made
		// again.
		return nil, nil
	}

	p.decide(c.now)
	pl := &p.plan

	if err := rules.CheckFill(f, pl.view.Account.Limits); err != nil {
		return nil, err
	}

	// A missing bucket starts full, so it stays missing.
	if pl.recreate {
		return p.checkAbsent(), nil
	}

	if err := checkLimits(p.limitCount()); err != nil {
		return nil, err
	}

	pl.fill = f
	refillRates(&pl.after, pl.at)
	pl.after.Fill(c.now, f)
	write := p.lockedWrite(&limiter.Amounts{}, false).item(&r.table, p.key)
	return &write, nil
}

// keepOwnLimits makes the payer follow the limits that its bucket has, if no level
// stores limits. It reports whether there is a bucket.
func (p *payer) keepOwnLimits(now int64) bool {
	img := p.cached.image
	if img == nil || p.cached.expired(now, p.repo.ttl) {
		return false
	}
	p.setLimits(img.limits(), p.resource(), limiter.Scope{})
	p.idle = p.cached.idle(p.repo.ttl)
	return true
}

// checkAbsent returns a write that is refused unless there is no bucket, or
// still the expired one. It changes only quotas of the expired bucket that are
// due: Python does not know that they are full. A ConditionCheck would be
// simpler, but some policies that allow changes of limits do not allow it.
func (p *payer) checkAbsent() *types.TransactWriteItem {
	if img := p.cached.image; img != nil {
		u := newUpdate()
		refill := u.attr(attrRefill)

		// Setting the refill time to what it is changes nothing.
		u.setTo(refill, number(img.refill))
		u.when(refill, "=", u.number(img.refill))

		for c := range img.all() {
			if c.due(p.plan.now) {
				m := c.steps(p.plan.now)
				u.changeLimit(c, &m)
			}
		}

		write := u.item(&p.repo.table, p.key)
		return &write
	}

	// The condition leaves nothing to delete but an item without a refill time,
	// which is no bucket.
	write := p.repo.deleteIf(p.key, nil)
	write.Delete.ConditionExpression = aws.String(ifNoBucket)
	return &write
}

// topUpWrite is the index of the ID in the transaction of a top-up.
const topUpWrite = 2

// send sends the transaction. Its tries share a token.
func (c *fillOp) send(ctx context.Context, bucketWrite types.TransactWriteItem) error {
	writes := []types.TransactWriteItem{bucketWrite, c.event}
	if c.fill.ID != "" {
		writes = append(writes, c.putID())
	}

	in := &dynamodb.TransactWriteItemsInput{TransactItems: writes, ClientRequestToken: aws.String(rand.Text())}

	_, err := sendWrite(ctx, maxTries, func() (item, error) {
		_, err := c.repo.once.TransactWriteItems(ctx, in)
		return nil, err
	})
	return err
}

// putID returns the write of the ID of a top-up, unless it was used within its life.
func (c *fillOp) putID() types.TransactWriteItem {
	it := newItem(c.repo.ns, c.topUpKey())

	until := bucket.Add(c.now, limiter.TopUpLife.Milliseconds())
	it[attrEntity], it[attrResource], it[attrEventID] = text(c.fill.Entity), text(c.fill.Resource), text(c.id)
	it[attrUntil], it[attrTTL] = number(until), number(ceilSeconds(until))

	return types.TransactWriteItem{Put: &types.Put{
		TableName: &c.repo.table, Item: it,
		ConditionExpression:                 aws.String("attribute_not_exists(#pk) OR #until <= :now"),
		ExpressionAttributeNames:            map[string]string{"#pk": attrPK, "#until": attrUntil},
		ExpressionAttributeValues:           item{":now": number(c.now)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// observe takes over the bucket that a fill left. A transaction returns no item, so
// observe reads it. If that fails, the next charge learns of the fill.
func (c *fillOp) observe(ctx context.Context) {
	p := c.payer
	if p.plan.recreate {
		return
	}

	c.repo.images.clearRefusals()
	it, err := c.repo.get(ctx, p.key)
	if err != nil {
		return
	}
	if img, err := decodeImage(it); err == nil && img != nil {
		c.repo.images.observeWrite(p.key, img, &p.cached, &p.plan.after, false)
	}
}
