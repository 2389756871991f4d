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
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// followRequests lists the requests of Follow.
var followRequests = []string{"DescribeStream", "BatchGetItem", "GetShardIterator", "GetRecords", "PutItem"}

// streamFault returns a fault that replies with an error of the service.
func streamFault(status int, kind string) dynamotest.Fault {
	return dynamotest.Fault{Name: kind, Act: func(x *dynamotest.Exchange) {
		x.Answer(dynamotest.Failure(status, kind, `"message":"made up"`))
	}}
}

// transientFaults returns faults after which a retry succeeds.
func transientFaults() []dynamotest.Fault {
	return []dynamotest.Fault{
		dynamotest.Throttle, dynamotest.Fail500, dynamotest.ResetBefore,
		streamFault(http.StatusBadRequest, "LimitExceededException"),
		streamFault(http.StatusBadRequest, "ThrottlingException"),
		streamFault(http.StatusServiceUnavailable, "ServiceUnavailable"),
		streamFault(http.StatusInternalServerError, "InternalServerError"),
		{Name: "no JSON", Act: func(x *dynamotest.Exchange) {
			x.Answer(dynamotest.Reply{Status: http.StatusBadGateway, Body: []byte("<html>")})
		}},
		{Name: "half a reply", Act: func(x *dynamotest.Exchange) {
			x.Answer(dynamotest.Reply{Status: http.StatusOK, Body: []byte(`{"Records":[`)})
		}},
	}
}

// fillForked fills the stream with a parent, its children and an unrelated
// shard, and returns the names of the records.
func (f *followedTable) fillForked() []string {
	f.server.Batch = 2
	p := f.stream.NewShard("p", nil).Put("p0", "p1", "p2").Close()
	f.stream.NewShard("a", p).Put("a0", "a1", "a2")
	f.stream.NewShard("b", p).Put("b0")
	f.stream.NewShard("z", nil).Put("z0", "z1", "z2")
	return f.allRecords()
}

func TestFollowTriesAgainWhatFails(t *testing.T) {
	t.Parallel()
	for _, op := range followRequests {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			for _, fail := range transientFaults() {
				f := newFollowedTable(t)
				all := f.fillForked()
				f.server.SetFaults(dynamotest.First(2, op, fail))
				f.drain(f.handleAll)
				f.checkOrder()
				f.checkHandled(all...)
				if n := f.server.Count(fail); n != 2 || len(f.failed) != 2 {
					t.Errorf("%s: %d faults, told %v", fail.Name, n, f.failed)
				}
			}
		})
	}
}

// Every second request of each kind and shard fails.
func TestFollowGetsThroughAnUnreliableNetwork(t *testing.T) {
	t.Parallel()
	for _, fail := range append(transientFaults(), dynamotest.DropReply, dynamotest.Fail500After) {
		t.Run(fail.Name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			all := f.fillForked()
			sent := map[string]int{} // one request after the other
			f.server.SetFaults(func(op string, body []byte) dynamotest.Fault {
				about := op + strings.Join(shardID.FindAllString(string(body), -1), " ")
				if sent[about]++; op == "DescribeTable" || sent[about]%2 == 0 {
					return dynamotest.Pass
				}
				return fail
			})
			f.drain(f.handleAll)
			f.checkOrder()
			f.checkHandled(all...)
		})
	}
}

var shardID = regexp.MustCompile("shardId-[0-9]+-[a-z]")

// A failing shard waits; the others continue without a pause.
func TestOtherShardsGoOnWhileOneFails(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]struct {
		request bool
		done    int
	}{"handle": {false, 0}, "handle after some": {false, 2}, "request": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 3
			f.stream.NewShard("a", nil).Put("a0", "a1", "a2", "a3")
			f.stream.NewShard("b", nil).Put(numberedNames("b", 40)...)
			f.stream.NewShard("c", nil).Put(numberedNames("c", 40)...)
			if fails.request {
				f.server.SetFaults(failRequests("GetRecords", "|shardId-00000000000000000000-a|"))
			}
			ctx, cancel := context.WithCancel(t.Context())
			err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour},
				func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
					if strings.HasPrefix(recordNames(records)[0], "a") {
						_, _ = f.handleAll(ctx, records[:fails.done])
						return fails.done, errors.New("down")
					}
					done, err := f.handleAll(ctx, records)
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
			f.server.SetFaults(dynamotest.Always(dynamotest.Pass))
			f.drain(f.handleAll)
			f.seen = slices.Compact(slices.Sorted(slices.Values(f.seen))) // a batch may be repeated
			f.checkHandled(append(append(numberedNames("b", 40), numberedNames("c", 40)...), "a0", "a1", "a2", "a3")...)
		})
	}
}

// failRequests returns a plan that fails the requests of an operation that
// contain a text.
func failRequests(op, part string) dynamotest.Plan {
	return func(asked string, body []byte) dynamotest.Fault {
		if asked == op && strings.Contains(string(body), part) {
			return dynamotest.Fail500
		}
		return dynamotest.Pass
	}
}

// A failed listing, here after the end of a shard, does not stop the known
// shards.
func TestKnownShardsAreReadThoughTheListingFails(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 1
	names := numberedNames("b", 10)
	f.stream.NewShard("a", nil).Close()
	f.stream.NewShard("b", nil).Put(names...)
	ctx, cancel := context.WithCancel(t.Context())
	err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour}, f.handleThen(func() {
		f.server.SetFaults(failRequests("DescribeStream", ""))
		if len(f.seen) == len(names) {
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.checkSeen(names...)
	if len(f.failed) != 1 {
		t.Errorf("told %v", f.failed)
	}
}

func TestFollowWaitsForWhatComesBack(t *testing.T) {
	t.Parallel()
	for _, op := range followRequests {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 1
			a := f.stream.NewShard("a", nil).Put("1")
			f.server.SetFaults(dynamotest.First(20, op, dynamotest.Fail500))
			ctx, cancel := context.WithCancel(t.Context())
			err := f.follow(ctx, dynamo.FollowOptions{}, f.handleThen(func() {
				if a.Put("2"); len(f.seen) == 2 {
					cancel()
				}
			}))
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			f.checkSeen("1", "2")
			if len(f.failed) != 20 {
				t.Errorf("told %d errors", len(f.failed))
			}
		})
	}
}

// With UntilEmpty, Follow does not wait forever for a service that does not
// recover.
func TestUntilEmptyEndsWithAnErrorThatLasts(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, test := range map[string]struct {
		faults dynamotest.Plan
		handle handler
		says   string
		seen   []string
	}{
		"listing": {faults: failRequests("DescribeStream", ""), says: "InternalServerError"},
		"places":  {faults: failRequests("BatchGetItem", ""), says: "InternalServerError"},
		"iterators": {
			faults: failRequests("GetShardIterator", "-a"), says: "InternalServerError",
			seen: []string{"b0", "b1", "b2"},
		},
		"records": {
			faults: failRequests("GetRecords", "-a"), says: "InternalServerError",
			seen: []string{"b0", "b1", "b2"},
		},
		"a shard": {
			faults: dynamotest.First(1000, "GetShardIterator",
				streamFault(http.StatusBadRequest, "ResourceNotFoundException")),
			says: "shard shardId-",
		},
		"handle": {handle: func(context.Context, []dynamo.StreamRecord) (int, error) { return 0, down }, says: "down"},
		"nothing": {handle: func(context.Context, []dynamo.StreamRecord) (int, error) {
			return 0, nil
		}, says: "not all records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 1
			f.stream.NewShard("a", nil).Put("a0", "a1")
			f.stream.NewShard("b", nil).Put("b0", "b1", "b2")
			if test.faults != nil {
				f.server.SetFaults(test.faults)
			}
			if test.handle == nil {
				test.handle = f.handleAll
			}
			err := f.follow(t.Context(), dynamo.FollowOptions{UntilEmpty: true}, test.handle)
			if !isError[*limiter.UnavailableError](err) {
				t.Fatal(err)
			}
			checkError(t, err, "follow", test.says)
			f.checkSeen(test.seen...)
			if test.says == "down" && !errors.Is(err, down) {
				t.Errorf("%v hides what handle said", err)
			}
		})
	}
}

// Any progress resets the error.
func TestUntilEmptyGoesOnWhileThereIsProgress(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	names := numberedNames("a", 20)
	f.stream.NewShard("a", nil).Put(names...)
	f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		done, _ := f.handleAll(ctx, records[:1])
		return done, errors.New("slow")
	})
	f.checkSeen(names...)
}

func TestFollowEndsWhenItIsNotAllowed(t *testing.T) {
	t.Parallel()
	for _, op := range append([]string{"DescribeTable"}, followRequests...) {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.stream.NewShard("a", nil).Put("1")
			f.server.SetFaults(dynamotest.First(1000, op, streamFault(http.StatusBadRequest, "AccessDeniedException")))
			err := f.follow(t.Context(), dynamo.FollowOptions{}, f.handleAll)
			if !isError[*limiter.UnavailableError](err) {
				t.Fatal(err)
			}
			checkError(t, err, "follow", "policy")
		})
	}
}

// Follow returns the error of its context unwrapped, whether it ends during a
// request, in handle or in a pause.
func TestFollowReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, where := range append([]string{"DescribeTable", "handle", "pause"}, followRequests...) {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.stream.NewShard("a", nil).Put("1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.server.SetFaults(dynamotest.First(1, where, dynamotest.Fault{
				Name: "leave",
				Act: func(x *dynamotest.Exchange) {
					cancel()
					dynamotest.Hang.Act(x)
				},
			}))
			err := f.follow(ctx, dynamo.FollowOptions{Pause: time.Hour},
				func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
					switch where {
					case "handle":
						cancel()
					case "pause":
						time.AfterFunc(10*time.Millisecond, cancel)
					}
					return f.handleAll(ctx, records)
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
	f := newFollowedTable(t)
	f.stream.NewShard("a", nil).Put("1")
	err := f.follow(t.Context(), dynamo.FollowOptions{}, f.handleThen(func() { must(t, f.repo.Close()) }))
	if !errors.Is(err, limiter.ErrClosed) {
		t.Error(err)
	}
	f.checkSeen("1")
}
