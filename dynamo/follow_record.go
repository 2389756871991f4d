package dynamo

import (
	"cmp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// record is a record in the types of the table. What it lacks is zero.
func (f *follower) record(r streams.Record) StreamRecord {
	out := StreamRecord{Feed: f.stream.label, Event: string(r.EventName)}
	if by := r.UserIdentity; by != nil {
		out.Expired = ExpiredBy(deref(by.Type), deref(by.PrincipalId))
	}
	if d := r.Dynamodb; d != nil {
		out.Sequence, out.Old, out.New = deref(d.SequenceNumber), streamItem(d.OldImage), streamItem(d.NewImage)
		if d.ApproximateCreationDateTime != nil {
			out.At = *d.ApproximateCreationDateTime
		}
	}
	return out
}

// notPlace tells whether a record is about anything but how far the stream is
// read. A removal, such as that of an old place, has no new image.
func notPlace(r streams.Record) bool {
	if r.Dynamodb == nil {
		return true
	}
	k := cmp.Or(streamItem(r.Dynamodb.Keys).key(), streamItem(r.Dynamodb.NewImage).key(), streamItem(r.Dynamodb.OldImage).key())
	return k.pk != systemPK(reservedNamespace) || !strings.HasPrefix(k.sk, streamSKPrefix)
}

// streamItem is an image in the types of the table.
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
	return &types.AttributeValueMemberNULL{Value: true} // sets and bytes, which nothing of ours holds
}
