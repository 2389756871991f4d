package dynamo

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// StreamRecord is a record of a table's stream, whoever read it.
type StreamRecord struct {
	Feed     string    // the label of the stream, which ends its ARN
	Sequence string    // a number, which rises with every change of an item
	Event    string    // INSERT, MODIFY or REMOVE
	At       time.Time // when it happened, about
	Old, New map[string]types.AttributeValue
}

// Change is what a record says about a bucket. If it is not ok the record is
// about something else, or what it says cannot be used for the reason given;
// "" means that this is as it should be.
func (s StreamRecord) Change() (c aggregator.Change, reason string, ok bool) {
	it := item(s.New)
	k := it.key()
	resource, isBucket := strings.CutPrefix(k.sk, bucketSKPrefix)
	if !isBucket || s.Event == "REMOVE" || resource == "" {
		return c, "", false
	}
	ns, _, prefixed := strings.Cut(k.pk, "/")
	if !prefixed {
		return c, "the table has no namespaces yet", false
	}
	entity := it.text(attrEntity)
	if entity == "" {
		return c, "the bucket has no " + attrEntity, false
	}
	c = aggregator.Change{
		Position: aggregator.Position{Feed: s.Feed, Number: padded(s.Sequence)}, At: s.At,
		Bucket: aggregator.ID{Namespace: ns, Entity: entity, Resource: resource},
	}
	var err error
	if c.Used, err = used(item(s.Old), it); err != nil {
		return c, err.Error(), false
	}
	if img, err := decodeImage(it); err == nil && img != nil {
		c.State = img.state()
	}
	return c, "", len(c.Used) > 0
}

// padded makes numbers comparable as text.
func padded(sequence string) string {
	const digits = 40
	return strings.Repeat("0", max(0, digits-len(sequence))) + sequence
}

// used are the whole tokens by which the counters of a bucket moved. One that
// was not there before began at 0.
func used(before, after item) (map[string]int64, error) {
	moved := map[string]int64{}
	for attr := range after {
		limit, ok := limitOf(attr, bucketPrefix, fieldTotal)
		if !ok {
			continue
		}
		now, err := after.number(attr)
		if err != nil {
			return nil, err
		}
		then, err := before.number(attr)
		if err != nil {
			return nil, err
		}
		if n := bucket.Whole(bucket.Sub(now, then)); n != 0 {
			moved[limit] = n
		}
	}
	return moved, nil
}

// state is an image as an aggregator sees it.
func (img *image) state() *aggregator.State {
	s := &aggregator.State{RefilledAt: time.UnixMilli(img.refill), Limits: img.limits(), Ref: img}
	for _, c := range img.cells {
		s.Tokens = append(s.Tokens, c.tokens)
	}
	return s
}
