package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// followRequests are those that Follow sends.
var followRequests = []string{"DescribeStream", "BatchGetItem", "GetShardIterator", "GetRecords", "PutItem"}

// streamFault is a fault that is an error of the service.
func streamFault(status int, kind string) fault {
	return fault{kind, func(x *exchange) { x.answer(failure(status, kind, `"message":"made up"`)) }}
}

// passing are faults that pass, before a request is carried out or after.
func passing() []fault {
	return []fault{
		throttle, fail500, resetBefore,
		streamFault(http.StatusBadRequest, "LimitExceededException"),
		streamFault(http.StatusBadRequest, "ThrottlingException"),
		streamFault(http.StatusServiceUnavailable, "ServiceUnavailable"),
		streamFault(http.StatusInternalServerError, "InternalServerError"),
		{"no JSON", func(x *exchange) { x.answer(wireReply{status: http.StatusBadGateway, body: []byte("<html>")}) }},
		{"half a reply", func(x *exchange) { x.answer(wireReply{status: http.StatusOK, body: []byte(`{"Records":[`)}) }},
	}
}

// forked fills the stream with a parent, its children, and a shard beside them.
func (f *followed) forked() []string {
	f.server.batch = 2
	p := f.stream.Shard("p", nil).Put("p0", "p1", "p2").Close()
	f.stream.Shard("a", p).Put("a0", "a1", "a2")
	f.stream.Shard("b", p).Put("b0")
	f.stream.Shard("z", nil).Put("z0", "z1", "z2")
	return f.recordsOfAll()
}

func TestFollowTriesAgainWhatFails(t *testing.T) {
	t.Parallel()
	for _, op := range followRequests {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			for _, fail := range passing() {
				f := newFollowed(t)
				all := f.forked()
				f.server.Faults(first(2, op, fail))
				f.drain(f.all)
				f.ordered()
				f.handled(all...)
				if n := f.server.Did(fail); n != 2 || len(f.failed) != 2 {
					t.Errorf("%s: %d faults, told %v", fail.name, n, f.failed)
				}
			}
		})
	}
}

// Every second request fails, of each kind and about each shard.
func TestFollowGetsThroughAnUnreliableNetwork(t *testing.T) {
	t.Parallel()
	for _, fail := range append(passing(), dropReply, fail500After) {
		t.Run(fail.name, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			all := f.forked()
			sent := map[string]int{} // one request after the other
			f.server.Faults(func(op string, body []byte) fault {
				about := op + strings.Join(shardID.FindAllString(string(body), -1), " ")
				if sent[about]++; op == "DescribeTable" || sent[about]%2 == 0 {
					return pass
				}
				return fail
			})
			f.drain(f.all)
			f.ordered()
			f.handled(all...)
		})
	}
}

var shardID = regexp.MustCompile("shardId-[0-9]+-[a-z]")

// What fails in one shard waits; the others go on without any pause.
func TestOtherShardsGoOnWhileOneFails(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]struct {
		request bool
		done    int
	}{"handle": {false, 0}, "handle after some": {false, 2}, "request": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			f.server.batch = 3
			f.stream.Shard("a", nil).Put("a0", "a1", "a2", "a3")
			f.stream.Shard("b", nil).Put(named("b", 40)...)
			f.stream.Shard("c", nil).Put(named("c", 40)...)
			if fails.request {
				f.server.Faults(failing("GetRecords", "|shardId-00000000000000000000-a|"))
			}
			ctx, cancel := context.WithCancel(t.Context())
			err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour}, func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
				if strings.HasPrefix(recordNames(records)[0], "a") {
					_, _ = f.all(ctx, records[:fails.done])
					return fails.done, errors.New("down")
				}
				done, err := f.all(ctx, records)
				if len(f.seen) == 80+fails.done {
					cancel()
				}
				return done, err
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if len(f.failed) != 1 {
				t.Errorf("told %v", f.failed)
			}
			f.server.Faults(always(pass))
			f.drain(f.all)
			f.seen = slices.Compact(slices.Sorted(slices.Values(f.seen))) // a batch may have come again
			f.handled(append(append(named("b", 40), named("c", 40)...), "a0", "a1", "a2", "a3")...)
		})
	}
}

// failing is the plan in which requests fail that hold a text.
func failing(op, part string) plan {
	return func(asked string, body []byte) fault {
		if asked == op && strings.Contains(string(body), part) {
			return fail500
		}
		return pass
	}
}

// A listing that cannot be made, here for a shard that ended, does not stop
// what is known.
func TestKnownShardsAreReadThoughTheListingFails(t *testing.T) {
	t.Parallel()
	f := newFollowed(t)
	f.server.batch = 1
	names := named("b", 10)
	f.stream.Shard("a", nil).Close()
	f.stream.Shard("b", nil).Put(names...)
	ctx, cancel := context.WithCancel(t.Context())
	err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour}, f.then(func() {
		f.server.Faults(failing("DescribeStream", ""))
		if len(f.seen) == len(names) {
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.saw(names...)
	if len(f.failed) != 1 {
		t.Errorf("told %v", f.failed)
	}
}

func TestFollowWaitsForWhatComesBack(t *testing.T) {
	t.Parallel()
	for _, op := range followRequests {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			f.server.batch = 1
			a := f.stream.Shard("a", nil).Put("1")
			f.server.Faults(first(20, op, fail500))
			ctx, cancel := context.WithCancel(t.Context())
			err := f.follow(ctx, dynamo.FollowOptions{}, f.then(func() {
				if a.Put("2"); len(f.seen) == 2 {
					cancel()
				}
			}))
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			f.saw("1", "2")
			if len(f.failed) != 20 {
				t.Errorf("told %d errors", len(f.failed))
			}
		})
	}
}

// Waiting for what does not come back is for those who want to wait.
func TestUntilEmptyEndsWithAnErrorThatLasts(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, test := range map[string]struct {
		faults plan
		handle handler
		says   string
		seen   []string
	}{
		"listing":   {faults: failing("DescribeStream", ""), says: "InternalServerError"},
		"places":    {faults: failing("BatchGetItem", ""), says: "InternalServerError"},
		"iterators": {faults: failing("GetShardIterator", "-a"), says: "InternalServerError", seen: []string{"b0", "b1", "b2"}},
		"records":   {faults: failing("GetRecords", "-a"), says: "InternalServerError", seen: []string{"b0", "b1", "b2"}},
		"a shard":   {faults: first(1000, "GetShardIterator", streamFault(http.StatusBadRequest, "ResourceNotFoundException")), says: "shard shardId-"},
		"handle":    {handle: func(context.Context, []dynamo.StreamRecord) (int, error) { return 0, down }, says: "down"},
		"nothing":   {handle: func(context.Context, []dynamo.StreamRecord) (int, error) { return 0, nil }, says: "not all records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			f.server.batch = 1
			f.stream.Shard("a", nil).Put("a0", "a1")
			f.stream.Shard("b", nil).Put("b0", "b1", "b2")
			if test.faults != nil {
				f.server.Faults(test.faults)
			}
			if test.handle == nil {
				test.handle = f.all
			}
			err := f.follow(t.Context(), dynamo.FollowOptions{UntilEmpty: true}, test.handle)
			if !isError[*limiter.UnavailableError](err) {
				t.Fatal(err)
			}
			says(t, err, "follow", test.says)
			f.saw(test.seen...)
			if test.says == "down" && !errors.Is(err, down) {
				t.Errorf("%v hides what handle said", err)
			}
		})
	}
}

// As long as something is done, an error does not last.
func TestUntilEmptyGoesOnWhileThereIsProgress(t *testing.T) {
	t.Parallel()
	f := newFollowed(t)
	names := named("a", 20)
	f.stream.Shard("a", nil).Put(names...)
	f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		done, _ := f.all(ctx, records[:1])
		return done, errors.New("slow")
	})
	f.saw(names...)
}

func TestFollowEndsWhenItIsNotAllowed(t *testing.T) {
	t.Parallel()
	for _, op := range append([]string{"DescribeTable"}, followRequests...) {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			f.stream.Shard("a", nil).Put("1")
			f.server.Faults(first(1000, op, streamFault(http.StatusBadRequest, "AccessDeniedException")))
			err := f.follow(t.Context(), dynamo.FollowOptions{}, f.all)
			if !isError[*limiter.UnavailableError](err) {
				t.Fatal(err)
			}
			says(t, err, "follow", "policy")
		})
	}
}

// A context that ends during a call, in handle or in a pause is told as it is.
func TestFollowReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, where := range append([]string{"DescribeTable", "handle", "pause"}, followRequests...) {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := newFollowed(t)
			f.stream.Shard("a", nil).Put("1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.server.Faults(first(1, where, fault{"leave", func(x *exchange) { cancel(); hang.act(x) }}))
			err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour}, func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
				switch where {
				case "handle":
					cancel()
				case "pause":
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				return f.all(ctx, records)
			})
			if err != context.Canceled { //nolint:errorlint // its own error, not one around it
				t.Error(err)
			}
			if len(f.failed) > 0 {
				t.Errorf("told %v", f.failed)
			}
		})
	}
}

func TestFollowEndsWithTheRepository(t *testing.T) {
	t.Parallel()
	f := newFollowed(t)
	f.stream.Shard("a", nil).Put("1")
	err := f.follow(t.Context(), dynamo.FollowOptions{}, f.then(func() { must(t, f.repo.Close()) }))
	if !errors.Is(err, limiter.ErrClosed) {
		t.Error(err)
	}
	f.saw("1")
}
