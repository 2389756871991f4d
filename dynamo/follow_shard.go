package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// shard is a part of the stream.
type shard struct {
	id, parent     string
	listed, closed bool
	after          string // the sequence that was done with last
	passed         int    // records that were done with since the place was kept
	unkept         bool   // the place has to be kept before more is read
	finished       bool
	iterator       *string
	empty          int // answers without records in a row
	trouble        trouble
}

// emptyAnswers is how many answers without records may come before the next
// record of a shard. The service searches a part of a shard for each, and takes
// no more than that for a whole one.
const emptyAnswers = 5

// ended tells whether nothing is left to read, also for those who begin later.
func (s *shard) ended() bool { return s.finished && !s.unkept }

// settled tells whether the shard is read as far as it goes.
func (s *shard) settled() bool { return s.ended() || !s.closed && s.empty >= emptyAnswers }

// recall takes in how far shards were read before.
func (f *follower) recall(ctx context.Context, shards []*shard) error {
	keys := make([]key, len(shards))
	for i, s := range shards {
		keys[i] = shardKey(f.stream.label, s.id)
	}
	places, err := f.repo.getAll(patient(ctx), keys)
	for i, s := range shards {
		s.after, s.finished = places[keys[i]].text(attrSequence), places[keys[i]].truth(attrFinished)
	}
	return err
}

// read reads a shard once and has its records handled. More says that there may
// be more at once.
func (f *follower) read(ctx context.Context, s *shard) (more bool, err error) {
	if s.unkept {
		if err := f.remember(ctx, s); err != nil || s.finished {
			return err == nil, err
		}
	}
	out, err := f.fetch(ctx, s)
	if isGone(err) && !s.listed {
		delete(f.shards, s.id)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if s.empty++; len(out.Records) > 0 {
		s.empty, err = 0, f.take(ctx, s, out.Records)
	}
	if s.iterator = out.NextShardIterator; err != nil {
		s.iterator = nil
	} else if s.iterator == nil {
		s.finished, s.unkept, f.listing.stale = true, true, true
	}
	if s.unkept {
		err = errors.Join(err, f.remember(ctx, s))
	}
	more = s.empty == 0 || s.finished || s.empty < emptyAnswers && (s.closed || f.opts.UntilEmpty)
	return more && err == nil, err
}

// fetch asks for the next records of a shard.
func (f *follower) fetch(ctx context.Context, s *shard) (out *dynamodbstreams.GetRecordsOutput, err error) {
	if s.iterator == nil {
		err = f.seek(ctx, s)
	}
	if err == nil {
		out, err = f.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator})
	}
	if err == nil {
		return out, nil
	}
	s.iterator = nil // it may have expired
	if _, trimmed := errors.AsType[*streams.TrimmedDataAccessException](err); trimmed {
		s.after = "" // what was not read within a day is gone
	}
	if isGone(err) {
		return nil, fmt.Errorf("shard %s of the stream of table %q: %w", s.id, f.repo.table, err)
	}
	return nil, f.repo.explain(err)
}

// seek begins to read a shard where that was left.
func (f *follower) seek(ctx context.Context, s *shard) error {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &f.stream.arn, ShardId: &s.id, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon,
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

// take has records handled, and notes how far that went. Keeping the place makes
// a record, too, so that is not done for such records alone, or it would go on
// for ever; only if they are many.
func (f *follower) take(ctx context.Context, s *shard, records []streams.Record) error {
	const many = 1000
	batch := make([]StreamRecord, len(records))
	for i, r := range records {
		batch[i] = f.record(r)
	}
	done, err := f.handle(ctx, batch)
	done = min(max(done, 0), len(batch))
	for _, r := range batch[:done] {
		if r.Sequence != "" {
			s.after = r.Sequence
		}
	}
	if done > 0 {
		s.trouble.times = 0
		s.passed += done
		s.unkept = s.passed >= many || slices.ContainsFunc(records[:done], notPlace)
	}
	if err == nil && done < len(batch) {
		return errLeft
	}
	return err
}

// remember keeps how far a shard is read for as long as streams last, and more.
func (f *follower) remember(ctx context.Context, s *shard) error {
	const kept = 7 * 24 * time.Hour
	it := newItem(reservedNamespace, shardKey(f.stream.label, s.id))
	it[attrFinished] = &types.AttributeValueMemberBOOL{Value: s.finished}
	it[attrTTL] = number(f.repo.clock().Add(kept).Unix())
	if s.after != "" {
		it[attrSequence] = text(s.after)
	}
	_, err := f.repo.slow.PutItem(patient(ctx), &dynamodb.PutItemInput{TableName: &f.repo.table, Item: it})
	if err != nil {
		return f.repo.explain(err)
	}
	s.unkept, s.passed = false, 0
	return nil
}
