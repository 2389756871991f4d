package dynamo

import (
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// send sends a credit once, or again as far as that is safe.
func (c *creditOp) send(ctx context.Context, u *update, after *rules.Bucket) (done bool, err error) {
	in := u.input(&c.repo.table, c.key)
	gives := c.gives()
	if gives { // it cannot be sent again, so nothing is won by hanging up early
		ctx = patient(ctx)
	}
	for try := 0; ; try++ {
		stored, err := c.repo.updateOnce(ctx, in)
		if err == nil {
			return true, c.wrote(ctx, stored, after)
		}
		switch f := resultOf(err); {
		case f == refused:
			return false, c.sees(refusedItem(err))
		case f == unknown && gives:
			return c.lose(err)
		case f == notExecuted && !retryable(err), f == unknown && try >= maxUnknown, try >= maxTries, pause(ctx, try+1) != nil:
			c.drop()
			return true, c.repo.explain(err)
		}
	}
}

// lose drops what is given back. What is taken may be sent again.
func (c *creditOp) lose(err error) (done bool, lost error) {
	c.repo.dropped.Add(1)
	takes, some := rules.Takes(&c.amounts)
	c.amounts = takes
	return !some, c.repo.explain(err)
}

// sendUndo sends a give-back under a token, so that it may be sent again. One that
// is refused is made anew, under another token, only if no try is left that may
// still arrive: both would be carried out.
func (c *creditOp) sendUndo(ctx context.Context, u *update, after *rules.Bucket) (done bool, err error) {
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{u.item(&c.repo.table, c.key)}, ClientRequestToken: aws.String(rand.Text()),
	}
	var lost error
	for try := 0; ; try++ {
		_, err := c.repo.once.TransactWriteItems(ctx, in)
		if err == nil {
			c.repo.images.wrote(c.key, c.predicted(after), &c.known, after, false)
			return true, nil
		}
		f := resultOf(err)
		switch {
		case f == refused && lost != nil:
			c.repo.dropped.Add(1)
			return true, c.repo.explain(lost)
		case f == refused:
			stored, _ := refusedAt(err, 0)
			return false, c.sees(stored)
		case f == unknown:
			lost = err
		}
		if f == notExecuted && !retryable(err) || try >= maxTries || pause(ctx, try+1) != nil {
			c.repo.dropped.Add(1)
			return true, c.repo.explain(err)
		}
	}
}

// insist takes what is to be taken, whatever others do to the bucket, and drops
// what is to be given back.
func (c *creditOp) forceDebit(ctx context.Context) error {
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
	if err == nil || resultOf(err) == refused {
		return nil
	}
	return c.repo.explain(err)
}

// wrote takes in what a credit left.
func (c *creditOp) wrote(ctx context.Context, stored item, after *rules.Bucket) error {
	img, err := decodeImage(stored)
	if err != nil || img == nil {
		return err
	}
	c.known = c.repo.images.wrote(c.key, img, &c.known, after, false)
	c.repo.extendTTL(ctx, c.key, img, after.At)
	return nil
}

// outlive makes a bucket that a write left, at a time, stay until it is full: the
// write was made from an image, and others may have taken more since.
func (s *store) extendTTL(ctx context.Context, k key, img *image, at int64) {
	if img.ttl == 0 {
		return
	}
	left := img.bucket(&limiter.Account{Limits: img.limits()}, img.refill, 0)
	left.Advance(at)
	if end := expiry(&left); end > img.ttl {
		u := newUpdate()
		ttl := u.attr(attrTTL)
		u.setTo(ttl, number(end))
		u.when(ttl, "<", u.number(end))
		_, _ = s.client.UpdateItem(ctx, u.input(&s.table, k)) // whoever was faster has seen to it
	}
}
