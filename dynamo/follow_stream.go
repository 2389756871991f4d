package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
)

const opFollow = "follow"

// stream is the current stream of a table.
type stream struct {
	arn, label string
	enabled    bool
	view       types.StreamViewType
}

// shardList is the state of the last listing of a stream's shards.
type shardList struct {
	at time.Time
	// The shards must be listed again.
	stale bool
	// The last pass started with a listing.
	fresh bool
	// The stream is disabled or deleted.
	disabled bool
	// Lookups of another stream, since this one is disabled.
	lookups int
	retry   retryState
}

// open starts with the current stream of the table.
func (f *follower) open(ctx context.Context) error {
	if err := f.repo.ready(ctx); err != nil {
		return err
	}

	found, err := f.find(ctx)
	if err != nil {
		return f.failure(ctx, err)
	}

	f.client = dynamodbstreams.NewFromConfig(f.repo.config, func(o *dynamodbstreams.Options) {
		// The table's endpoint serves its stream too. An endpoint of the AWS
		// configuration stays, unless Options.Endpoint overrides it.
		if o.BaseEndpoint == nil || f.repo.opts.Endpoint != "" {
			o.BaseEndpoint = f.repo.client.Options().BaseEndpoint
		}
	})

	return f.start(found)
}

// find returns the current stream of the table.
func (f *follower) find(ctx context.Context) (stream, error) {
	out, err := f.repo.slow.DescribeTable(withoutTryTimeout(ctx),
		&dynamodb.DescribeTableInput{TableName: &f.repo.table})
	if err != nil {
		return stream{}, f.repo.explain(err)
	}

	found := stream{arn: aws.ToString(out.Table.LatestStreamArn), label: aws.ToString(out.Table.LatestStreamLabel)}
	if spec := out.Table.StreamSpecification; spec != nil && found.arn != "" {
		found.enabled = aws.ToBool(spec.StreamEnabled)
		found.view = spec.StreamViewType
	}

	return found, nil
}

// start switches to a stream. It must have both images of an item, since the
// change is their difference.
func (f *follower) start(found stream) error {
	if !found.enabled {
		return fmt.Errorf("stream of table %q: %w; enable it with new and old images", f.repo.table,
			limiter.ErrNotFound)
	}
	if found.view != types.StreamViewTypeNewAndOldImages {
		return fmt.Errorf("stream with new and old images of table %q: %w, only one with %s; replace it",
			f.repo.table, limiter.ErrNotFound, found.view)
	}

	f.stream, f.shards, f.listing = found, map[string]*shard{}, shardList{stale: true}
	return nil
}

// replace switches from a disabled stream, once that is read, to the current one.
// It reports that Follow is done if there is none and UntilEmpty is set.
func (f *follower) replace(ctx context.Context) (done bool, err error) {
	const maxLookups = 60
	found, err := f.find(ctx)
	switch {
	// An error that lasts ends Follow after as many lookups as a missing stream
	// does. So the lookups are counted here, and idle pauses between them: the
	// errors need no retry state.
	case err != nil && f.listing.lookups == maxLookups:
		return false, f.failure(ctx, err)
	case err != nil:
		f.listing.lookups++
		return false, f.check(ctx, &retryState{}, err)
	case found.enabled && found.arn != f.stream.arn:
		return false, f.start(found)
	case !found.enabled && f.opts.UntilEmpty:
		return true, nil
	case f.listing.lookups == maxLookups:
		return false, fmt.Errorf("table %q has lost its stream: %w; enable one with new and old images again",
			f.repo.table, limiter.ErrNotFound)
	}

	f.listing.lookups++
	return false, nil
}

// needsListing reports whether to list the shards again.
func (f *follower) needsListing() bool {
	// The shards are listed sooner if one ends, or if a pass finds no records.
	const maxAge = 10 * time.Second
	now := f.repo.clock()
	return (f.listing.stale || now.After(f.listing.at.Add(maxAge))) && !now.Before(f.listing.retry.until)
}

// refresh adds new shards and drops ended ones that the listing lacks. A missing
// shard that has not ended stays until a read fails, because a listing may lack
// shards for a moment.
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

// list returns the current shards of the stream.
func (f *follower) list(ctx context.Context) (map[string]*shard, error) {
	shards := map[string]*shard{}
	var added []*shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.stream.arn}

	for {
		out, err := f.client.DescribeStream(ctx, in)

		// A disabled stream is removed in the end. What is left of it counts as
		// read, so that Follow looks for the next one.
		if isGone(err) {
			f.listing.disabled = true
			return map[string]*shard{}, nil
		}

		if err != nil {
			return nil, f.repo.explain(err)
		}

		for _, d := range out.StreamDescription.Shards {
			id := aws.ToString(d.ShardId)
			s := f.shards[id]

			if s == nil {
				s = &shard{id: id, parent: aws.ToString(d.ParentShardId), listed: true}
				added = append(added, s)
			}

			// An open shard has no last sequence number yet.
			s.closed = d.SequenceNumberRange != nil && aws.ToString(d.SequenceNumberRange.EndingSequenceNumber) != ""
			shards[id] = s
		}

		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; aws.ToString(
			in.ExclusiveStartShardId,
		) == "" {
			f.listing.disabled = out.StreamDescription.StreamStatus == streams.StreamStatusDisabled
			return shards, f.loadCheckpoints(ctx, added)
		}
	}
}

// failure translates an explained error into one that Follow returns.
func (f *follower) failure(ctx context.Context, err error) error {
	// The stream or the shard is gone, not the table.
	if isGone(err) {
		return &limiter.UnavailableError{Op: opFollow, Err: err}
	}
	return f.repo.failure(ctx, opFollow, err)
}

// isGone reports whether the stream or shard does not exist.
func isGone(err error) bool {
	_, gone := errors.AsType[*streams.ResourceNotFoundException](err)
	return gone
}

// isPermanent reports whether a retry would fail again.
func isPermanent(err error) bool {
	code := errorCode(err)
	return code == "AccessDeniedException" || code == "ResourceNotFoundException" && !isGone(err)
}
