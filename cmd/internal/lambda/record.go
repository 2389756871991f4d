package lambda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// event is the payload of an invocation by an event source mapping. Records are
// decoded one by one, so that a malformed one does not affect the others.
type event struct {
	Records []json.RawMessage
}

// record is a stream record in an event.
type record struct {
	EventName      string
	EventSourceARN string
	UserIdentity   struct{ Type, PrincipalID string }
	DynamoDB       struct {
		ApproximateCreationDateTime float64 // seconds
		SequenceNumber              string
		OldImage, NewImage          map[string]any
	}
}

// parseRecord decodes a record. Unknown attribute types do not fail, so that the
// position of the record is known.
func parseRecord(raw json.RawMessage) (dynamo.StreamRecord, error) {
	var r record
	decoder := json.NewDecoder(bytes.NewReader(raw))
	// A number of an unknown kind may not fit a float64, and must not fail the
	// record.
	decoder.UseNumber()
	if err := decoder.Decode(&r); err != nil {
		return dynamo.StreamRecord{}, fmt.Errorf("decode record: %w", err)
	}

	_, feed, _ := strings.Cut(r.EventSourceARN, "/stream/")
	out := dynamo.StreamRecord{
		Feed: feed, Sequence: r.DynamoDB.SequenceNumber, Event: r.EventName,
		Old: image(r.DynamoDB.OldImage), New: image(r.DynamoDB.NewImage),
		Expired: dynamo.ExpiredBy(r.UserIdentity.Type, r.UserIdentity.PrincipalID),
	}

	if seconds := r.DynamoDB.ApproximateCreationDateTime; seconds > 0 {
		out.At = time.UnixMilli(int64(seconds * 1000))
	}
	return out, nil
}

// image decodes the attributes of an item.
func image(attributes map[string]any) map[string]types.AttributeValue {
	if attributes == nil {
		return nil
	}
	out := make(map[string]types.AttributeValue, len(attributes))
	for name, v := range attributes {
		out[name] = attribute(v)
	}
	return out
}

// attribute decodes an attribute value. It returns NULL for types other than
// strings, numbers, booleans, maps and lists, which our items do not hold.
func attribute(v any) types.AttributeValue {
	typed, _ := v.(map[string]any)
	for kind, v := range typed {
		switch v := v.(type) {
		case string:
			if kind == "S" {
				return &types.AttributeValueMemberS{Value: v}
			}
			if kind == "N" {
				return &types.AttributeValueMemberN{Value: v}
			}
		case bool:
			if kind == "BOOL" {
				return &types.AttributeValueMemberBOOL{Value: v}
			}
		case map[string]any:
			if kind == "M" {
				return &types.AttributeValueMemberM{Value: image(v)}
			}
		case []any:
			if kind == "L" {
				return &types.AttributeValueMemberL{Value: attributes(v)}
			}
		}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

func attributes(list []any) []types.AttributeValue {
	out := make([]types.AttributeValue, len(list))
	for i, v := range list {
		out[i] = attribute(v)
	}
	return out
}
