package dynamo

import (
	"cmp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// StreamRecord is a record of a table's stream, read by Follow or delivered to a
// function.
type StreamRecord struct {
	Feed     string    // the label of the stream, which is the last part of its ARN
	Sequence string    // a number that increases with every change of an item
	Event    string    // INSERT, MODIFY or REMOVE
	At       time.Time // the approximate time of the change
	Expired  bool      // whether the item was removed because its TTL had passed
	Old, New map[string]types.AttributeValue
}

// ExpiredBy reports whether the given user identity of a record belongs to
// DynamoDB, which removes items whose TTL has passed.
func ExpiredBy(kind, principal string) bool {
	return kind == "Service" && principal == "dynamodb.amazonaws.com"
}

// position returns the position of the record in its stream, and whether it has
// one. Without a position a record could be counted twice.
func (s StreamRecord) position() (aggregator.Position, bool) {
	// Sequence numbers differ in length, up to 40 digits. With zeros before them,
	// they sort as text.
	const digits = 40
	known := s.Feed != "" && s.Sequence != "" && len(s.Sequence) <= digits &&
		strings.Trim(s.Sequence, "0123456789") == ""
	return aggregator.Position{
		Feed: s.Feed, Number: strings.Repeat("0", max(0, digits-len(s.Sequence))) + s.Sequence,
	}, known
}

// Change returns the change of a bucket that the record describes. If ok is false
// and there is a reason, the record is unusable. If ok is false without a reason,
// the record changes no usage of a bucket, and no step of a quota is due.
func (s StreamRecord) Change() (c aggregator.Change, reason string, ok bool) {
	it := item(s.New)
	k := it.key()
	resource, isBucket := strings.CutPrefix(k.sk, bucketSKPrefix)
	switch {
	case s.New == nil && s.Old == nil:
		return c, "the record has no images", false
	case !isBucket || s.Event == "REMOVE" || resource == "":
		return c, "", false
	case s.Event != "INSERT" && s.Event != "MODIFY":
		return c, "the event is unknown", false
	case s.Event == "MODIFY" && s.Old == nil: // its whole usage would count as new
		return c, "the record has no old image; the stream must have new and old images", false
	}

	// Keys of tables from before namespaces have no prefix.
	ns, _, prefixed := strings.Cut(k.pk, "/")
	if !prefixed {
		return c, "the table has no namespaces yet", false
	}

	entity := it.text(attrEntity)
	if entity == "" {
		return c, "the bucket has no " + attrEntity, false
	}

	position, known := s.position()
	if !known {
		return c, "the record has no position in a stream", false
	}

	at := s.At
	if refill, err := it.number(attrRefill); at.IsZero() && err == nil && refill > 0 {
		// The refill time replaces a missing time, and not the clock, so that a retry
		// counts in the same window.
		at = time.UnixMilli(refill)
	}
	if at.IsZero() {
		return c, "the record has no time", false
	}

	c = aggregator.Change{
		Position: position, At: at, Bucket: aggregator.ID{Namespace: ns, Entity: entity, Resource: resource},
	}
	var err error

	if c.Used, c.WouldRefuse, err = usedTokens(item(s.Old), it); err != nil {
		return c, err.Error(), false
	}

	// A damaged bucket cannot be refilled, and its usage counts all the same.
	due := false
	if img, err := decodeImage(it); err == nil && img != nil {
		c.State, due = img.state(), img.due(at.UnixMilli())
	}
	return c, "", len(c.Used) > 0 || len(c.WouldRefuse) > 0 || due
}

// Removed returns the audit event whose removal the record describes. If ok is false
// and there is a reason, the record is unusable. If ok is false without a reason,
// the record does not describe the removal of an event.
func (s StreamRecord) Removed() (e aggregator.Event, reason string, ok bool) {
	it := item(s.Old)
	k := it.key()
	if s.Event != "REMOVE" || !strings.HasPrefix(k.sk, auditSKPrefix) {
		return e, "", false
	}

	e = aggregator.Event{AuditEvent: decodeEvent(it), Expired: s.Expired}
	if ns, _, prefixed := strings.Cut(k.pk, "/"); prefixed {
		e.Namespace = ns
	}

	if e.At.IsZero() {
		e.At = s.At
	}

	switch {
	case e.Action == "":
		return e, "the event has no " + attrAction, false
	case e.At.IsZero():
		return e, "the event has no " + attrTimestamp, false
	}
	return e, "", true
}

// usedTokens returns the whole tokens by which the counters of a bucket changed, and
// how often its shadow limits were spared. A counter that was missing before starts
// at 0.
func usedTokens(before, after item) (used, spared map[string]int64, err error) {
	used = map[string]int64{}
	for attr := range after {
		limit, field := bucketField(attr)
		if field != fieldTotal && field != fieldSpared {
			continue
		}

		now, err := after.number(attr)
		if err != nil {
			return nil, nil, err
		}
		then, err := before.number(attr)
		if err != nil {
			return nil, nil, err
		}

		// Each change is rounded to whole tokens by itself, so that the sum
		// does not depend on how the stream is split.
		n := bucket.Sub(now, then)
		if field == fieldSpared && n != 0 {
			spared = rules.AddCount(spared, limit, n)
		} else if n = bucket.Whole(n); field == fieldTotal && n != 0 {
			used[limit] = n
		}
	}
	return used, spared, nil
}

// state returns the bucket of an image for an aggregator, with limits that have left:
// they refill with the others.
func (img *image) state() *aggregator.State {
	s := &aggregator.State{RefilledAt: time.UnixMilli(img.refill), Ref: img}
	var step int64
	for c := range img.all() {
		s.Limits, s.Tokens = append(s.Limits, c.limit()), append(s.Tokens, c.tokens)
		if w := c.rate.Window; w != nil && (step == 0 || w.End(c.start) < step) {
			step = w.End(c.start)
		}
	}

	if step != 0 {
		s.StepAt = time.UnixMilli(step)
	}
	return s
}

// newStreamRecord converts a record of the stream with the given label. Fields
// that it lacks are zero.
func newStreamRecord(label string, r streams.Record) StreamRecord {
	out := StreamRecord{Feed: label, Event: string(r.EventName)}
	if by := r.UserIdentity; by != nil {
		out.Expired = ExpiredBy(aws.ToString(by.Type), aws.ToString(by.PrincipalId))
	}

	if d := r.Dynamodb; d != nil {
		out.Sequence, out.Old, out.New = aws.ToString(d.SequenceNumber), streamItem(d.OldImage), streamItem(d.NewImage)
		if d.ApproximateCreationDateTime != nil {
			out.At = *d.ApproximateCreationDateTime
		}
	}
	return out
}

// isCheckpoint reports whether a record describes a change of a checkpoint of
// Follow. The removal of an old checkpoint has no new image.
func isCheckpoint(r streams.Record) bool {
	if r.Dynamodb == nil {
		return false
	}
	k := cmp.Or(streamItem(r.Dynamodb.Keys).key(), streamItem(r.Dynamodb.NewImage).key(),
		streamItem(r.Dynamodb.OldImage).key())
	return k.pk == systemPK(reservedNamespace) && strings.HasPrefix(k.sk, streamSKPrefix)
}

// streamItem converts an image to an item.
func streamItem(image map[string]streams.AttributeValue) item {
	if image == nil {
		return nil
	}
	it := make(item, len(image))
	for name, v := range image {
		it[name] = streamValue(v)
	}
	return it
}

func streamValue(v streams.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *streams.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: v.Value}
	case *streams.AttributeValueMemberN:
		return &types.AttributeValueMemberN{Value: v.Value}
	case *streams.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}
	case *streams.AttributeValueMemberM:
		return &types.AttributeValueMemberM{Value: streamItem(v.Value)}
	case *streams.AttributeValueMemberL:
		list := make([]types.AttributeValue, len(v.Value))
		for i := range v.Value {
			list[i] = streamValue(v.Value[i])
		}
		return &types.AttributeValueMemberL{Value: list}
	}

	// The rest are sets and bytes, which our items do not hold.
	return &types.AttributeValueMemberNULL{Value: true}
}
