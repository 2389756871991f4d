package dynamo

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// notThere is the condition under which a bucket may be made: there is no item,
// or only the remains of one.
const notThere = "attribute_not_exists(" + attrPK + ") OR attribute_not_exists(" + attrRefill + ")"

// send charges everybody who has not paid yet, side by side, and tells whether
// all have. It returns when all are done, also on an error: who is known to have
// paid then gets it back.
func (c *consumeOp) send(ctx context.Context) (paid bool, err error) {
	amounts := &c.charge.Amounts
	for _, p := range c.payers() {
		if !p.paid {
			p.pay(amounts)
		}
	}
	switch {
	case c.parent == nil || c.parent.paid:
		err = c.self.send(ctx, amounts)
	case c.self.paid:
		err = c.parent.send(ctx, amounts)
	case c.self.known.image == nil && c.parent.known.image == nil:
		err = c.createBoth(ctx)
	default:
		err = c.sendBoth(ctx)
	}
	return c.self.paid && (c.parent == nil || c.parent.paid), err
}

func (c *consumeOp) sendBoth(ctx context.Context) error {
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = c.parent.send(ctx, &c.charge.Amounts) })
	err := c.self.send(ctx, &c.charge.Amounts)
	wg.Wait()
	return errors.Join(err, failed)
}

// createBoth makes both buckets, or none.
func (c *consumeOp) createBoth(ctx context.Context) error {
	var items []types.TransactWriteItem
	for _, p := range c.payers() {
		items = append(items, types.TransactWriteItem{Put: &types.Put{
			TableName: &p.repo.table, Item: p.create(&c.charge.Amounts), ConditionExpression: aws.String(notThere),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	err := c.repo.transact(ctx, items...)
	if err != nil && resultOf(err) != refused {
		return c.repo.explain(err)
	}
	for i, p := range c.payers() {
		var failed error
		if err == nil {
			failed = p.answered(items[i].Put.Item, nil)
		} else if stored, ok := refusedAt(err, i); ok {
			failed = p.refusedBy(stored)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// pay takes the amounts, in the plan.
func (p *payer) pay(amounts *limiter.Amounts) {
	p.plan.turn.Pay(amounts)
	_ = p.plan.turn.Commit(amounts, rules.NoBook) // which cannot fail
}

// unpay makes the view that of before the payment, which is given back.
func (p *payer) unpay(amounts *limiter.Amounts) {
	view := &p.plan.view
	tokens := make([]int64, len(view.Tokens))
	for i, l := range view.Account.Limits {
		n, _ := amounts.Lookup(l.Name)
		tokens[i] = min(view.Tokens[i]+n*bucket.Milli, l.Capacity*bucket.Milli)
	}
	view.Tokens = tokens
}

// send sends the debit of a payer. It has paid, or it has the image that says
// why not, or there is an error.
func (p *payer) send(ctx context.Context, amounts *limiter.Amounts) error {
	if p.known.image == nil {
		return p.sendCreate(ctx, amounts)
	}
	var u *update
	switch m := p.mode(amounts); {
	case m == modeLocked:
		u = p.lock(amounts, true)
	case !rules.Pays(p.account.Limits, amounts):
		p.paid = true
		if !p.override {
			p.known = p.repo.images.owned(p.key, p.known, p.account)
			p.plan.view.Account = p.known.account
		}
		return nil
	default:
		u = p.plain(amounts, m)
	}
	in := u.input(&p.repo.table, p.key)
	if err := p.answered(p.repo.debit(ctx, func() (item, error) { return p.repo.updateOnce(ctx, in) })); err != nil || !p.paid {
		return err
	}
	p.repo.extendTTL(ctx, p.key, p.known.image, p.plan.at)
	return nil
}

func (p *payer) sendCreate(ctx context.Context, amounts *limiter.Amounts) error {
	return p.answered(p.repo.debit(ctx, func() (item, error) { return p.put(ctx, amounts) }))
}

// updateOnce sends an update and returns what it left.
func (s *store) updateOnce(ctx context.Context, in *dynamodb.UpdateItemInput) (item, error) {
	out, err := s.once.UpdateItem(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case out.Attributes == nil && in.ReturnValues == types.ReturnValueAllNew:
		return nil, errNoItem
	}
	return out.Attributes, nil
}

// errNoItem is an answer that lacks what was asked for: whatever made it, the
// write may not have been executed.
var errNoItem = errors.New("the answer to a write has no item")

// put makes the bucket of the plan, unless there is one.
func (p *payer) put(ctx context.Context, amounts *limiter.Amounts) (item, error) {
	in := &dynamodb.PutItemInput{
		TableName: &p.repo.table, Item: p.create(amounts), ConditionExpression: aws.String(notThere),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	_, err := p.repo.once.PutItem(ctx, in)
	return in.Item, err
}

// answered takes in what became of a debit.
func (p *payer) answered(stored item, err error) error {
	if err != nil && resultOf(err) == refused {
		return p.refusedBy(refusedItem(err))
	}
	if err != nil {
		return p.repo.explain(err)
	}
	img, err := decodeImage(stored)
	if err != nil {
		return err
	}
	p.accepted(img)
	return nil
}

// debit sends a debit, again if it was not executed or may not have been: at
// worst it is taken twice, which refill heals.
func (s *store) debit(ctx context.Context, send func() (item, error)) (item, error) {
	for try := 0; ; try++ {
		stored, err := send()
		if err == nil {
			return stored, nil
		}
		f := resultOf(err)
		if f == refused || f == notExecuted && !retryable(err) || f == unknown && try >= maxUnknown || try >= maxTries || ctx.Err() != nil {
			return nil, err
		}
		if pause(ctx, try+1) != nil {
			return nil, err
		}
	}
}

// maxUnknown is how often a debit is sent again that may have been executed.
const maxUnknown = 2

// refusedBy takes in the item that a condition did not hold for.
func (p *payer) refusedBy(stored item) error {
	img, err := decodeImage(stored)
	if err != nil {
		return err
	}
	p.sees(img)
	if img == nil {
		p.placed = false
	}
	return nil
}

// accepted takes in the image that the debit left.
func (p *payer) accepted(img *image) {
	p.paid = true
	view := &p.plan.view
	seen := p.known.seen // when it was sent
	if p.override {
		p.known = p.repo.images.wrote(p.key, img, &p.known, &p.plan.after, p.plan.recreate)
		a := *view.Account
		a.Ref, view.Account = p.known.ref, &a
		return
	}
	p.known = p.repo.images.charged(p.key, img, &p.known, &p.plan.after, p.plan.recreate, p.account)
	view.Account = p.known.account
	for i, l := range view.Account.Limits {
		if c := img.find(l.Name); c != nil {
			view.Tokens[i] = bucket.Advance(c.tokens, max(img.refill, seen), p.plan.at, c.rate)
		}
	}
}

// repair makes a bucket follow the limits in force at now without consumeOp it.
// An image that others have overtaken is no reason to leave it. What comes of it
// is not this caller's concern: the next one tries again.
func (p *payer) repair(ctx context.Context, now int64, charge *limiter.Charge) {
	for range maxRepairs {
		u := p.lock(&limiter.Amounts{}, true)
		stored, err := p.repo.updateOnce(ctx, u.input(&p.repo.table, p.key))
		if err == nil {
			if img, err := decodeImage(stored); err == nil && img != nil {
				p.known = p.repo.images.charged(p.key, img, &p.known, &p.plan.after, false, p.account)
			}
			return
		}
		if resultOf(err) != refused || p.refusedBy(refusedItem(err)) != nil || !p.mends(now) || p.refresh(ctx, now, charge) != nil || !p.mends(now) || !p.fresh {
			return
		}
	}
}

// mends reports whether there is a bucket that does not follow the limits.
func (p *payer) mends(now int64) bool {
	if p.known.image == nil {
		return false
	}
	p.decide(now)
	return p.plan.repair && !p.plan.recreate
}

// maxRepairs is how often a repair is tried that others overtake.
const maxRepairs = 3
