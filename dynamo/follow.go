package dynamo

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// FollowOptions configures Follow. The zero value of a field means its default.
type FollowOptions struct {
	// UntilEmpty makes Follow return once no records are left, instead of waiting
	// for more.
	UntilEmpty bool
	// Pause is the wait before Follow polls an empty stream again, and before it
	// retries after an error; default 1 s.
	Pause time.Duration
	// OnError, if not nil, is called with each error that Follow retries, including
	// those of handle. Calls of OnError and handle do not overlap.
	OnError func(error)
}

// Follow reads the table's stream and passes its records to handle, one batch at
// a time, until ctx is done. Records of one item come in order. Handle returns
// how many records of the batch it has handled. Follow passes the others again
// after a pause, while other shards of the stream continue. Follow starts where
// the last call stopped, or at the beginning of the stream. It saves a checkpoint
// in the table after every batch, so a process that dies repeats at most one
// batch.
//
// Follow retries errors forever. With UntilEmpty, it returns an error that
// occurred five times in a row, once all other shards are read. Follow skips
// records that the service has removed, which happens after a day. It reads a
// disabled stream to its end, and then the stream that replaces it. It waits 60
// pauses for that one, or not at all with UntilEmpty. It does not read streams
// that were replaced before the call.
//
// Follow is meant for local engines. In an AWS account, a function processes the
// stream.
//
// Follow returns limiter.ErrNotFound if the table has no stream with new and old
// images; limiter.ErrClosed if the repository is closed; the error of ctx; or
// *limiter.UnavailableError, which wraps the error of handle if that caused it.
func (r *Repository) Follow(
	ctx context.Context, opts *FollowOptions, handle func(context.Context, []StreamRecord) (int, error),
) error {
	f := &follower{repo: r, handle: handle}
	if opts != nil {
		f.opts = *opts
	}

	if f.opts.Pause <= 0 {
		f.opts.Pause = time.Second
	}

	if err := f.open(ctx); err != nil {
		return err
	}

	for done := false; !done; {
		more, err := f.pass(ctx)
		if err == nil && !more {
			done, err = f.idle(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follower is the state of one call of Follow.
type follower struct {
	repo    *Repository
	client  *dynamodbstreams.Client
	opts    FollowOptions
	handle  func(context.Context, []StreamRecord) (int, error)
	stream  stream
	shards  map[string]*shard
	listing shardList
}

// retryState holds the last error of an operation and the time of its retry.
type retryState struct {
	err      error
	failures int // consecutive
	until    time.Time
}

// pass reads every readable shard once. It reports whether more records may be
// available at once.
func (f *follower) pass(ctx context.Context) (more bool, err error) {
	if err := f.repo.ready(ctx); err != nil {
		return false, err
	}

	if f.listing.fresh = f.needsListing(); f.listing.fresh {
		if err := f.check(ctx, &f.listing.retry, f.refresh(ctx)); err != nil {
			return false, err
		}
	}

	for _, id := range slices.Sorted(maps.Keys(f.shards)) {
		s := f.shards[id]

		// A child begins after the end of its parent, so that the records of
		// one item stay in order.
		if s.ended() || !f.ended(s.parent) || f.repo.clock().Before(s.retry.until) {
			continue
		}

		moreOfShard, err := f.read(ctx, s)
		if err := f.check(ctx, &s.retry, err); err != nil {
			return false, err
		}
		more = more || moreOfShard
	}

	// If nothing is left to read, there may be shards that the last listing
	// lacks.
	f.listing.stale = f.listing.stale || !more
	return more, nil
}

// ended reports whether a shard has ended, so that its children can be read. An
// unknown shard has ended: the service has removed it, or it never existed.
func (f *follower) ended(id string) bool {
	s, known := f.shards[id]
	return !known || s.ended()
}

// check updates the retry state with the result of an operation. It returns the
// errors that end Follow.
func (f *follower) check(ctx context.Context, state *retryState, err error) error {
	switch {
	// The end of ctx may have caused the error, which is then no failure to report.
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		*state = retryState{}
		return nil
	case isPermanent(err):
		return f.failure(ctx, err)
	}

	if f.opts.OnError != nil {
		f.opts.OnError(err)
	}
	*state = retryState{err: err, failures: state.failures + 1, until: f.repo.clock().Add(f.opts.Pause)}
	return nil
}

// idle runs after a pass without records. It reports that Follow is done, or
// waits for a pause.
func (f *follower) idle(ctx context.Context) (done bool, err error) {
	failing, err := f.failing(ctx)
	if err != nil {
		return false, err
	}

	if !failing && f.caughtUp() {
		switch {
		// There may be new shards that this pass has not listed.
		case !f.listing.fresh:
			return false, nil
		case f.listing.disabled:
			if done, err = f.replace(ctx); done || err != nil {
				return done, err
			}
		case f.opts.UntilEmpty:
			return true, nil
		}
	}

	return false, pause.For(ctx, f.opts.Pause)
}

// failing reports whether the listing, or a shard that has not caught up, waits
// for a retry. With UntilEmpty it returns an error that occurred too often.
func (f *follower) failing(ctx context.Context) (failing bool, err error) {
	const maxFailures = 5
	states := []*retryState{&f.listing.retry}
	for _, id := range slices.Sorted(maps.Keys(f.shards)) {
		if s := f.shards[id]; !s.caughtUp() {
			states = append(states, &s.retry)
		}
	}

	for _, state := range states {
		failing = failing || state.err != nil
		if f.opts.UntilEmpty && state.failures >= maxFailures {
			return true, f.failure(ctx, state.err)
		}
	}
	return failing, nil
}

// caughtUp reports whether every shard has caught up.
func (f *follower) caughtUp() bool {
	for _, s := range f.shards {
		if !s.caughtUp() {
			return false
		}
	}
	return true
}
