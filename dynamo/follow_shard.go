package dynamo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
)

// seek begins to read a shard where that was left.
func (f *follower) seek(ctx context.Context, s *shard) error {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &f.arn, ShardId: &s.id, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon,
	}
	if s.after != "" {
		in.ShardIteratorType, in.SequenceNumber = streams.ShardIteratorTypeAfterSequenceNumber, &s.after
	}
	out, err := f.client.GetShardIterator(ctx, in)
	if err != nil {
		return err
	}
	s.iterator = out.ShardIterator
	return nil
}

// errLeft says that some records have to come again.
var errLeft = errors.New("not all records could be handled")

// take has records handled, and keeps how far that went.
func (f *follower) take(ctx context.Context, s *shard, records []streams.Record) error {
	batch := make([]StreamRecord, len(records))
	for i, r := range records {
		batch[i] = f.record(r)
	}
	done, err := f.handle(ctx, batch)
	if done > 0 {
		s.after = batch[done-1].Sequence
		if slices.ContainsFunc(batch[:done], notPlace) {
			err = errors.Join(err, f.remember(ctx, s))
		}
	}
	if err == nil && done < len(batch) {
		return errLeft
	}
	return err
}

// notPlace tells whether a record is about anything but how far the stream is
// read. Keeping that makes such a record, too, and so on for ever.
func notPlace(r StreamRecord) bool {
	return !strings.HasPrefix(item(r.New).key().sk, streamSKPrefix)
}

func (f *follower) record(r streams.Record) StreamRecord {
	out := StreamRecord{Feed: f.label, Event: string(r.EventName)}
	if d := r.Dynamodb; d != nil {
		out.Sequence, out.Old, out.New = deref(d.SequenceNumber), streamItem(d.OldImage), streamItem(d.NewImage)
		if d.ApproximateCreationDateTime != nil {
			out.At = *d.ApproximateCreationDateTime
		}
	}
	return out
}

// remember keeps how far a shard is read for as long as streams last, and more.
func (f *follower) remember(ctx context.Context, s *shard) error {
	const kept = 7 * 24 * time.Hour
	it := newItem(reservedSpace, shardKey(f.label, s.id))
	it[attrFinished] = &types.AttributeValueMemberBOOL{Value: s.finished}
	it[attrTTL] = number(f.repo.clock().Add(kept).Unix())
	if s.after != "" {
		it[attrSequence] = text(s.after)
	}
	_, err := f.repo.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &f.repo.table, Item: it})
	return f.repo.explain(err)
}

// lasting tells whether trying again would not help.
func lasting(err error) bool {
	_, gone := errors.AsType[*streams.ResourceNotFoundException](err)
	return gone || errors.Is(err, limiter.ErrClosed) || errorCode(err) == "AccessDeniedException"
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
