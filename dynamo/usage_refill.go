package dynamo

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Refill brings every limit of a bucket up to now in one write, so that the next
// charge finds the tokens there. It is refused, and nothing is lost, when the
// bucket was refilled since, has other limits, or holds so much more that a
// limit would overflow. Its time to live stays: a refill is no use.
func (u *UsageStore) Refill(ctx context.Context, now time.Time, of aggregator.ID, state *aggregator.State) (bool, error) {
	img, ok := state.Ref.(*image)
	if !ok {
		return false, nil
	}
	up := refilled(img, now.UnixMilli())
	if up == nil {
		return false, nil
	}
	in := up.input(&u.repo.table, bucketKey(of.Namespace, of.Entity, of.Resource))
	in.ReturnValues = types.ReturnValueNone
	_, err := u.repo.updateOnce(patient(ctx), in)
	if resultOf(err) == refused {
		return false, nil
	}
	return err == nil, u.repo.explain(err)
}

// refilled is the write that brings the bucket of an image up to now, nil if
// that would change nothing.
func refilled(img *image, now int64) *update {
	if now <= img.refill {
		return nil
	}
	up := newUpdate()
	changed := false
	for i := range img.cells {
		c := &img.cells[i]
		up.sameRate(c)
		after := bucket.Advance(c.tokens, img.refill, now, c.rate)
		gain, full := bucket.Sub(after, c.tokens), after >= c.rate.Capacity
		if gain <= 0 && !full { // nothing accrued, and what began to is not lost: floors telescope
			continue
		}
		tokens := up.attr(bucketAttr(c.name, fieldTokens))
		if full { // how much fits depends on what is there
			up.when(tokens, "=", up.number(c.tokens))
		} else {
			up.when(tokens, "<=", up.number(bucket.Sub(c.rate.Capacity, gain)))
		}
		if gain > 0 {
			changed = true
			up.addTo(tokens, gain)
		}
	}
	if !changed {
		return nil
	}
	up.sameShape(img)
	refill := up.attr(attrRefill)
	up.when(refill, "=", up.number(img.refill))
	up.setTo(refill, number(now))
	return up
}
