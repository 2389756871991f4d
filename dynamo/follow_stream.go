package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
)

const opFollow = "follow"

// stream is the one that a table has at a time.
type stream struct {
	arn, label string
	on         bool
	view       types.StreamViewType
}

// shardList is what is known about the shards of a stream as a whole.
type shardList struct {
	at      time.Time
	stale   bool // it has to be made again
	fresh   bool // the last pass began with a try to make it
	off     bool // the stream gets no more records, or is gone
	looks   int  // for another stream, since it is off
	trouble trouble
}

// open begins with the stream that the table has now.
func (f *follower) open(ctx context.Context) error {
	if err := f.repo.ready(ctx); err != nil {
		return err
	}
	found, err := f.find(ctx)
	if err != nil {
		return f.failure(ctx, err)
	}
	f.client = dynamodbstreams.NewFromConfig(f.repo.config, func(o *dynamodbstreams.Options) {
		if o.BaseEndpoint == nil || f.repo.opts.Endpoint != "" { // an engine that has the table has its stream
			o.BaseEndpoint = f.repo.client.Options().BaseEndpoint
		}
	})
	return f.begin(found)
}

// find looks for the stream of the table.
func (f *follower) find(ctx context.Context) (stream, error) {
	out, err := f.repo.slow.DescribeTable(patient(ctx), &dynamodb.DescribeTableInput{TableName: &f.repo.table})
	if err != nil {
		return stream{}, f.repo.explain(err)
	}
	found := stream{arn: deref(out.Table.LatestStreamArn), label: deref(out.Table.LatestStreamLabel)}
	if spec := out.Table.StreamSpecification; spec != nil && found.arn != "" {
		found.on = spec.StreamEnabled != nil && *spec.StreamEnabled
		found.view = spec.StreamViewType
	}
	return found, nil
}

// begin reads a stream from now on. Without both images of an item nobody could
// tell what a change was.
func (f *follower) begin(found stream) error {
	if !found.on {
		return fmt.Errorf("stream of table %q: %w; enable it with new and old images", f.repo.table, limiter.ErrNotFound)
	}
	if found.view != types.StreamViewTypeNewAndOldImages {
		return fmt.Errorf("stream with new and old images of table %q: %w, only one with %s; replace it", f.repo.table, limiter.ErrNotFound, found.view)
	}
	f.stream, f.shards, f.listing = found, map[string]*shard{}, shardList{stale: true}
	return nil
}

// replace goes on with the stream that the table has instead of one that is off
// and read to its end. It is over if there is none and nobody waits for it.
func (f *follower) replace(ctx context.Context) (over bool, err error) {
	const most = 60
	found, err := f.find(ctx)
	switch {
	case err != nil && f.listing.looks == most:
		return false, f.failure(ctx, err)
	case err != nil:
		f.listing.looks++
		return false, f.note(ctx, &trouble{}, err)
	case found.on && found.arn != f.stream.arn:
		return false, f.begin(found)
	case !found.on && f.opts.UntilEmpty:
		return true, nil
	case f.listing.looks == most:
		return false, fmt.Errorf("table %q has lost its stream: %w; enable one with new and old images again", f.repo.table, limiter.ErrNotFound)
	}
	f.listing.looks++
	return false, nil
}

// outdated tells whether there may be other shards than those known.
func (f *follower) outdated() bool {
	const lasts = 10 * time.Second // and until a shard ends, or nothing is found
	now := f.repo.clock()
	return (f.listing.stale || now.After(f.listing.at.Add(lasts))) && !now.Before(f.listing.trouble.until)
}

// refresh learns of new shards, and forgets finished ones that are no more. One
// that is listed no more but not read to its end is kept until the service says
// that it is gone, because a listing may lack some for a moment.
func (f *follower) refresh(ctx context.Context) error {
	shards, err := f.list(ctx)
	if err != nil {
		return err
	}
	for id, s := range f.shards {
		if s.listed = shards[id] != nil; !s.listed && !s.ended() {
			shards[id] = s
		}
	}
	f.shards, f.listing.at, f.listing.stale = shards, f.repo.clock(), false
	return nil
}

// list asks for the shards that there are.
func (f *follower) list(ctx context.Context) (map[string]*shard, error) {
	shards := map[string]*shard{}
	var met []*shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.stream.arn}
	for {
		out, err := f.client.DescribeStream(ctx, in)
		if isGone(err) {
			f.listing.off = true
			return map[string]*shard{}, nil
		}
		if err != nil {
			return nil, f.repo.explain(err)
		}
		for _, d := range out.StreamDescription.Shards {
			id := deref(d.ShardId)
			s := f.shards[id]
			if s == nil {
				s = &shard{id: id, parent: deref(d.ParentShardId), listed: true}
				met = append(met, s)
			}
			s.closed = d.SequenceNumberRange != nil && deref(d.SequenceNumberRange.EndingSequenceNumber) != ""
			shards[id] = s
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; deref(in.ExclusiveStartShardId) == "" {
			f.listing.off = out.StreamDescription.StreamStatus == streams.StreamStatusDisabled
			return shards, f.recall(ctx, met)
		}
	}
}

// failure is what Follow returns for an error that was explained.
func (f *follower) failure(ctx context.Context, err error) error {
	if isGone(err) { // not the table
		return &limiter.UnavailableError{Op: opFollow, Err: err}
	}
	return f.repo.failure(ctx, opFollow, err)
}

// isGone tells whether the service knows no such stream or shard.
func isGone(err error) bool {
	_, gone := errors.AsType[*streams.ResourceNotFoundException](err)
	return gone
}

// lasting tells whether trying again would not help.
func lasting(err error) bool {
	code := errorCode(err)
	return code == "AccessDeniedException" || code == "ResourceNotFoundException" && !isGone(err)
}
