package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
)

// FollowOptions are those of Follow. The zero value of a field is its default.
type FollowOptions struct {
	// UntilEmpty ends once nothing is left to read, instead of waiting for more.
	UntilEmpty bool
	// Pause is how long to wait when there was nothing to read; default 1 s.
	Pause time.Duration
}

// Follow reads the table's stream from where the last one stopped, or from its
// beginning, until ctx ends, and gives its records to handle, those of one item
// in order. Handle tells how many it has done with; the others come again,
// after a pause if it also returns an error. The place is kept in the table
// after every batch, so a process that dies repeats one batch at most.
//
// It is meant for local engines: in an account a function is called instead,
// many at once. Errors: limiter.ErrNotFound when the table has no stream, the
// error of ctx, or *limiter.UnavailableError.
func (r *Repository) Follow(ctx context.Context, opts *FollowOptions, handle func(context.Context, []StreamRecord) (int, error)) error {
	f := &follower{repo: r, handle: handle, shards: map[string]*shard{}}
	if opts != nil {
		f.opts = *opts
	}
	if f.opts.Pause <= 0 {
		f.opts.Pause = time.Second
	}
	if err := f.open(ctx); err != nil {
		return err
	}
	for {
		busy, err := f.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case lasting(err):
			return r.failure(ctx, "follow", err)
		case !busy && err == nil && f.opts.UntilEmpty:
			return nil
		case busy && err == nil:
			continue
		}
		select {
		case <-time.After(f.opts.Pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follower is a Follow under way.
type follower struct {
	repo       *Repository
	client     *dynamodbstreams.Client
	opts       FollowOptions
	handle     func(context.Context, []StreamRecord) (int, error)
	arn, label string
	shards     map[string]*shard
}

// shard is a part of the stream.
type shard struct {
	id, parent string
	after      string // the sequence that was done with last
	finished   bool
	iterator   *string
}

// open finds the stream.
func (f *follower) open(ctx context.Context) error {
	if err := f.repo.ready(ctx); err != nil {
		return err
	}
	out, err := f.repo.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &f.repo.table})
	if err != nil {
		return f.repo.failure(ctx, "follow", f.repo.explain(err))
	}
	spec := out.Table.StreamSpecification
	if out.Table.LatestStreamArn == nil || spec == nil || spec.StreamEnabled == nil || !*spec.StreamEnabled {
		return fmt.Errorf("stream of table %q: %w; enable it with new and old images", f.repo.table, limiter.ErrNotFound)
	}
	f.arn, f.label = *out.Table.LatestStreamArn, deref(out.Table.LatestStreamLabel)
	f.client = dynamodbstreams.NewFromConfig(f.repo.config, func(o *dynamodbstreams.Options) {
		if f.repo.opts.Endpoint != "" {
			o.BaseEndpoint = &f.repo.opts.Endpoint
		}
	})
	return nil
}

// pass reads every shard that may be read once, and tells whether there was
// anything.
func (f *follower) pass(ctx context.Context) (busy bool, err error) {
	if err := f.refresh(ctx); err != nil {
		return false, err
	}
	for _, s := range f.shards {
		if s.finished || !f.ended(s.parent) {
			continue
		}
		read, failed := f.read(ctx, s)
		busy, err = busy || read, errors.Join(err, failed)
	}
	return busy, err
}

// ended tells whether nothing of a shard is left to read: its children hold what
// came later.
func (f *follower) ended(id string) bool {
	s, known := f.shards[id]
	return !known || s.finished
}

// refresh learns of new shards, and forgets those that are no more.
func (f *follower) refresh(ctx context.Context) error {
	found := map[string]*shard{}
	for start := (*string)(nil); ; {
		out, err := f.client.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &f.arn, ExclusiveStartShardId: start})
		if err != nil {
			return err
		}
		for _, d := range out.StreamDescription.Shards {
			id := deref(d.ShardId)
			if found[id] = f.shards[id]; found[id] != nil {
				continue
			}
			if found[id], err = f.remembered(ctx, id, deref(d.ParentShardId)); err != nil {
				return err
			}
		}
		if start = out.StreamDescription.LastEvaluatedShardId; start == nil {
			f.shards = found
			return nil
		}
	}
}

// remembered is a shard as far as it was read before.
func (f *follower) remembered(ctx context.Context, id, parent string) (*shard, error) {
	it, err := f.repo.get(ctx, shardKey(f.label, id))
	return &shard{id: id, parent: parent, after: it.text(attrSequence), finished: it.truth(attrFinished)}, err
}

// read reads a shard once and has its records handled.
func (f *follower) read(ctx context.Context, s *shard) (busy bool, err error) {
	if s.iterator == nil {
		if err := f.seek(ctx, s); err != nil {
			return false, err
		}
	}
	out, err := f.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator})
	if err != nil {
		s.iterator = nil // it may have expired
		if _, trimmed := errors.AsType[*streams.TrimmedDataAccessException](err); trimmed {
			s.after = "" // what was not read within a day is gone
		}
		return false, err
	}
	if len(out.Records) > 0 {
		if err := f.take(ctx, s, out.Records); err != nil {
			s.iterator = nil
			return true, err
		}
	}
	if s.iterator = out.NextShardIterator; s.iterator == nil {
		s.finished = true
		return true, f.remember(ctx, s)
	}
	return len(out.Records) > 0, nil
}
