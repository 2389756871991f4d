package dynamo

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// FollowOptions are those of Follow. The zero value of a field is its default.
type FollowOptions struct {
	// UntilEmpty ends once nothing is left to read, instead of waiting for more.
	UntilEmpty bool
	// Pause is how long to wait when there was nothing to read, and before what
	// failed is tried again; default 1 s.
	Pause time.Duration
	// Failed is told every error after which Follow goes on, those of handle
	// included, by the goroutine that calls handle; nil tells nobody.
	Failed func(error)
}

// Follow reads the table's stream from where the last one stopped, or from its
// beginning, until ctx ends, and gives its records to handle, those of one item
// in order, one batch at a time. Handle tells how many it has done with. The
// others come again after a pause, while other parts of the stream go on. The
// place is kept in the table after every batch, so a process that dies repeats
// one batch at most.
//
// What fails is tried again for ever, or with UntilEmpty until the rest is read
// and it has failed five times in a row. What the service has trimmed, a day
// after it happened, is passed over. A stream that is switched off is read to
// its end, and then the one that replaces it, for which Follow waits 60 pauses,
// or none with UntilEmpty. A stream that was replaced before is not read.
//
// It is meant for local engines: in an account a function is called instead,
// many at once. Errors: limiter.ErrNotFound when the table has no stream with
// new and old images, or has it no more; limiter.ErrClosed; the error of ctx; or
// *limiter.UnavailableError, around that of handle if this is what keeps failing.
func (r *Repository) Follow(ctx context.Context, opts *FollowOptions, handle func(context.Context, []StreamRecord) (int, error)) error {
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
	for over := false; !over; {
		found, err := f.pass(ctx)
		if err == nil && !found {
			over, err = f.rest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follower is a Follow under way.
type follower struct {
	repo    *Repository
	client  *dynamodbstreams.Client
	opts    FollowOptions
	handle  func(context.Context, []StreamRecord) (int, error)
	stream  stream
	shards  map[string]*shard
	listing shardList
}

// trouble is what keeps failing, and until when that is left alone.
type trouble struct {
	err   error
	times int // in a row
	until time.Time
}

// pass reads every shard that may be read once. Found says that there may be
// more at once.
func (f *follower) pass(ctx context.Context) (found bool, err error) {
	if err := f.repo.ready(ctx); err != nil {
		return false, err
	}
	if f.listing.fresh = f.outdated(); f.listing.fresh {
		if err := f.note(ctx, &f.listing.trouble, f.refresh(ctx)); err != nil {
			return false, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.shards)) {
		s := f.shards[id]
		if s.ended() || !f.ended(s.parent) || f.repo.clock().Before(s.trouble.until) {
			continue
		}
		more, err := f.read(ctx, s)
		if err := f.note(ctx, &s.trouble, err); err != nil {
			return false, err
		}
		found = found || more
	}
	f.listing.stale = f.listing.stale || !found
	return found, nil
}

// ended tells whether nothing of a shard is left to read: its children hold what
// came later. One that is not known has been trimmed, or there never was one.
func (f *follower) ended(id string) bool {
	s, known := f.shards[id]
	return !known || s.ended()
}

// note takes in how a try went. It returns the error that ends Follow, if it is
// one.
func (f *follower) note(ctx context.Context, t *trouble, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		*t = trouble{}
		return nil
	case lasting(err):
		return f.failure(ctx, err)
	}
	if f.opts.Failed != nil {
		f.opts.Failed(err)
	}
	*t = trouble{err: err, times: t.times + 1, until: f.repo.clock().Add(f.opts.Pause)}
	return nil
}

// rest is for when nothing was found: it is over, or time for a pause.
func (f *follower) rest(ctx context.Context) (over bool, err error) {
	troubled, err := f.troubled(ctx)
	if err != nil {
		return false, err
	}
	if !troubled && f.settled() {
		switch {
		case !f.listing.fresh: // there may be new shards
			return false, nil
		case f.listing.off:
			if over, err = f.replace(ctx); over || err != nil {
				return over, err
			}
		case f.opts.UntilEmpty:
			return true, nil
		}
	}
	select {
	case <-time.After(f.opts.Pause):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// troubled tells whether something fails that was not read as far as it goes,
// and with UntilEmpty the error once it did so too often.
func (f *follower) troubled(ctx context.Context) (troubled bool, err error) {
	const most = 5
	all := []*trouble{&f.listing.trouble}
	for _, id := range slices.Sorted(maps.Keys(f.shards)) {
		if s := f.shards[id]; !s.settled() {
			all = append(all, &s.trouble)
		}
	}
	for _, t := range all {
		troubled = troubled || t.err != nil
		if f.opts.UntilEmpty && t.times >= most {
			return true, f.failure(ctx, t.err)
		}
	}
	return troubled, nil
}

// settled tells whether every shard is read as far as it goes.
func (f *follower) settled() bool {
	for _, s := range f.shards {
		if !s.settled() {
			return false
		}
	}
	return true
}
