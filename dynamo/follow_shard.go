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

// shard is a shard of the stream. Its checkpoint is an item of the table that
// says how far it has been read.
type shard struct {
	id, parent     string
	listed, closed bool
	after          string // the sequence number of the last handled record
	unsavedRecords int    // records handled since the last checkpoint
	unsaved        bool   // the checkpoint must be saved before the next read
	finished       bool   // all records have been handled
	iterator       *string
	empty          int // consecutive responses without records
	retry          retryState
}

// maxEmpty is the number of empty responses after which a shard counts as read
// to its end. Each response covers a part of the shard, and this many cover it
// all.
const maxEmpty = 5

// ended reports whether the shard is finished and its checkpoint says so.
func (s *shard) ended() bool { return s.finished && !s.unsaved }

// caughtUp reports whether no more records are available at the moment.
func (s *shard) caughtUp() bool { return s.ended() || !s.closed && s.empty >= maxEmpty }

// loadCheckpoints reads the checkpoints of shards.
func (f *follower) loadCheckpoints(ctx context.Context, shards []*shard) error {
	keys := make([]key, len(shards))
	for i, s := range shards {
		keys[i] = shardKey(f.stream.label, s.id)
	}

	found, err := f.repo.getAll(withoutTryTimeout(ctx), keys)
	for i, s := range shards {
		s.after, s.finished = found[keys[i]].text(attrSequence), found[keys[i]].truth(attrFinished)
	}
	return err
}

// read reads a shard once and handles its records. It reports whether more
// records may be available at once.
func (f *follower) read(ctx context.Context, s *shard) (more bool, err error) {
	// A process that dies must repeat at most one batch, so nothing is read
	// before the last one is saved. A finished shard has nothing to read, but
	// its children may begin at once.
	if s.unsaved {
		if err := f.saveCheckpoint(ctx, s); err != nil || s.finished {
			return err == nil, err
		}
	}

	out, err := f.fetch(ctx, s)

	// The service has removed a shard that is neither listed nor readable. Its
	// children need not wait for it.
	if isGone(err) && !s.listed {
		delete(f.shards, s.id)
		return true, nil
	}
	if err != nil {
		return false, err
	}

	if s.empty++; len(out.Records) > 0 {
		s.empty, err = 0, f.handleRecords(ctx, s, out.Records)
	}

	// The next iterator would skip records that were not handled, so after an error the
	// next read looks for its place again.
	if s.iterator = out.NextShardIterator; err != nil {
		s.iterator = nil
	} else if s.iterator == nil {
		s.finished, s.unsaved, f.listing.stale = true, true, true
	}

	if s.unsaved {
		err = errors.Join(err, f.saveCheckpoint(ctx, s))
	}

	// A response without records need not be the end of a shard. If the shard
	// is closed, or UntilEmpty looks for the end, the next request follows
	// without a pause.
	more = s.empty == 0 || s.finished || s.empty < maxEmpty && (s.closed || f.opts.UntilEmpty)
	return more && err == nil, err
}

// fetch requests the next records of a shard.
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

	// The iterator may have expired.
	s.iterator = nil

	if _, trimmed := errors.AsType[*streams.TrimmedDataAccessException](err); trimmed {
		// The service has removed the record of the checkpoint, as it does
		// after a day.
		s.after = ""
	}

	// explain would say that the table is missing.
	if isGone(err) {
		return nil, fmt.Errorf("shard %s of the stream of table %q: %w", s.id, f.repo.table, err)
	}
	return nil, f.repo.explain(err)
}

// seek gets an iterator that continues after the last handled record.
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

// errUnhandled reports that some records need a retry.
var errUnhandled = errors.New("not all records could be handled")

// handleRecords passes records to the handler and advances the shard. A saved
// checkpoint is itself a record of the stream. So batches of checkpoints alone
// are saved only after many records, or Follow would never find the stream empty.
func (f *follower) handleRecords(ctx context.Context, s *shard, records []streams.Record) error {
	const many = 1000

	batch := make([]StreamRecord, len(records))
	for i, r := range records {
		batch[i] = newStreamRecord(f.stream.label, r)
	}

	done, err := f.handle(ctx, batch)

	// The handler may return an impossible count.
	done = min(max(done, 0), len(batch))

	// Without a sequence number, there is nothing to continue after.
	for _, r := range batch[:done] {
		if r.Sequence != "" {
			s.after = r.Sequence
		}
	}

	if done > 0 {
		// UntilEmpty gives up after repeated failures, but not while there is
		// progress.
		s.retry.failures = 0
		s.unsavedRecords += done
		s.unsaved = s.unsavedRecords >= many ||
			slices.ContainsFunc(records[:done], func(r streams.Record) bool { return !isCheckpoint(r) })
	}

	if err == nil && done < len(batch) {
		return errUnhandled
	}
	return err
}

// saveCheckpoint stores how far a shard has been read.
func (f *follower) saveCheckpoint(ctx context.Context, s *shard) error {
	// The stream keeps its records for a day, so later nothing needs the
	// checkpoint.
	const retention = 7 * 24 * time.Hour
	it := newItem(reservedNamespace, shardKey(f.stream.label, s.id))
	it[attrFinished] = &types.AttributeValueMemberBOOL{Value: s.finished}
	it[attrTTL] = number(f.repo.clock().Add(retention).Unix())
	if s.after != "" {
		it[attrSequence] = text(s.after)
	}

	_, err := f.repo.slow.PutItem(withoutTryTimeout(ctx), &dynamodb.PutItemInput{TableName: &f.repo.table, Item: it})
	if err != nil {
		return f.repo.explain(err)
	}

	s.unsaved, s.unsavedRecords = false, 0
	return nil
}
