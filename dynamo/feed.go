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
	Expired  bool      // whether the item was removed for its age
	Old, New map[string]types.AttributeValue
}

// ExpiredBy tells whether whoever removed an item is the service that does so for
// its age.
func ExpiredBy(kind, principal string) bool {
	return kind == "Service" && principal == "dynamodb.amazonaws.com"
}

// position is where the record stands. Without one nobody could tell whether it
// is counted.
func (s StreamRecord) position() (aggregator.Position, bool) {
	const digits = 40
	known := s.Feed != "" && s.Sequence != "" && len(s.Sequence) <= digits && strings.Trim(s.Sequence, "0123456789") == ""
	return aggregator.Position{Feed: s.Feed, Number: strings.Repeat("0", max(0, digits-len(s.Sequence))) + s.Sequence}, known
}

// Change is what a record says about a bucket. If it is not ok the record is
// about something else, or what it says cannot be used for the reason given;
// "" means that this is as it should be.
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
	case s.Event == "MODIFY" && s.Old == nil: // all the bucket ever used would count as new
		return c, "the record has no old image; the stream has to give both", false
	}
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
		return c, "the record has no place in a stream", false
	}
	at := s.At
	if refill, err := it.number(attrRefill); at.IsZero() && err == nil && refill > 0 {
		at = time.UnixMilli(refill) // not the clock: a replay must find the same window
	}
	if at.IsZero() {
		return c, "the record has no time", false
	}
	c = aggregator.Change{Position: position, At: at, Bucket: aggregator.ID{Namespace: ns, Entity: entity, Resource: resource}}
	var err error
	if c.Used, err = used(item(s.Old), it); err != nil {
		return c, err.Error(), false
	}
	if img, err := decodeImage(it); err == nil && img != nil {
		c.State = img.state()
	}
	return c, "", len(c.Used) > 0
}

// Removed is the audit event that a record says is gone. If it is not ok the
// record is about something else, or what it says cannot be used for the reason
// given.
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
