package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

type handler = func(context.Context, []dynamo.StreamRecord) (int, error)

// followedTable is a table with a scripted stream and a repository that sends
// every request once.
type followedTable struct {
	*testing.T
	server *dynamotest.StreamServer
	stream *dynamotest.Stream
	repo   *dynamo.Repository
	seen   []string // names of the handled records
	failed []error  // passed to FollowOptions.Failed
}

func newFollowedTable(t *testing.T) *followedTable {
	t.Helper()
	table, server := dynamotest.NewTable(t), dynamotest.NewStreamServer(t)
	return &followedTable{
		T: t, server: server, stream: server.Stream(),
		repo: dynamotest.Connect(t, table, &dynamo.Options{AWS: withoutRetries(dynamotest.Config(server.URL))}),
	}
}

// handleAll handles all records.
func (f *followedTable) handleAll(_ context.Context, records []dynamo.StreamRecord) (int, error) {
	f.seen = append(f.seen, recordNames(records)...)
	return len(records), nil
}

func recordNames(records []dynamo.StreamRecord) (names []string) {
	for _, r := range records {
		if name := dynamotest.Text(r.New, "name"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// handleThen returns a handler that handles all records and calls work after
// each batch.
func (f *followedTable) handleThen(work func()) handler {
	return func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		done, err := f.handleAll(ctx, records)
		work()
		return done, err
	}
}

// follow calls Follow and fails the test if it hangs.
func (f *followedTable) follow(ctx context.Context, opts dynamo.FollowOptions, handle handler) error {
	f.Helper()
	if opts.Pause == 0 {
		opts.Pause = time.Millisecond
	}
	opts.OnError = func(err error) { f.failed = append(f.failed, err) }
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := f.repo.Follow(limited, &opts, handle)
	if limited.Err() != nil && ctx.Err() == nil {
		f.Fatalf("it still runs after a minute; it has seen %v, and %d errors such as %v", f.seen, len(f.failed),
			f.failed[:min(1, len(f.failed))])
	}
	return err
}

// drain follows until the stream is empty.
func (f *followedTable) drain(handle handler) {
	f.Helper()
	must(f, f.follow(f.Context(), dynamo.FollowOptions{UntilEmpty: true}, handle))
}

// checkSeen checks the names of the handled records, in order.
func (f *followedTable) checkSeen(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.seen); diff != "" {
		f.Errorf("seen (-want +got):\n%s", diff)
	}
}

// countRequests returns how often a request is in the log.
func countRequests(log []string, request string) (n int) {
	for _, r := range log {
		if r == request {
			n++
		}
	}
	return n
}

func TestFollowGoesOnAfterTheLastRecordWhenAnIteratorExpired(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"open shard": false, "closed shard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 2
			a := f.stream.NewShard("a", nil).Put("1", "2", "3", "4", "5")
			a.Closed = closed
			f.drain(f.handleThen(f.server.Expire))
			f.checkSeen("1", "2", "3", "4", "5")
			if n := countRequests(f.server.Log(), "GetShardIterator a"); n < 3 {
				t.Errorf("%d iterators; the test wants some to expire", n)
			}
		})
	}
}

// Unhandled records are read again from the sequence number before them,
// although there is an iterator for the records after them.
func TestFollowSeeksWhatHandleLeft(t *testing.T) {
	t.Parallel()
	names := []string{"1", "2", "3", "4", "5", "6", "7"}
	for done := range 4 {
		for _, said := range []error{nil, errors.New("down")} {
			f := newFollowedTable(t)
			f.server.Batch = 3
			f.stream.NewShard("a", nil).Put(names...)
			batches := 0
			f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
				if batches++; batches%2 == 0 {
					return f.handleAll(ctx, records)
				}
				n, _ := f.handleAll(ctx, records[:min(done, len(records))])
				return n, said
			})
			f.checkSeen(names...)
		}
	}
}

// A count out of range is clamped.
func TestFollowClampsWrongCounts(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.stream.NewShard("a", nil).Put("1", "2")
	counts := []int{-1, 7}
	f.drain(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		n := counts[0]
		counts = counts[1:]
		if n > 0 {
			_, _ = f.handleAll(ctx, records)
		}
		return n, nil
	})
	f.checkSeen("1", "2")
}

func TestFollowPassesOverWhatIsTrimmed(t *testing.T) {
	t.Parallel()
	trim := func(h *dynamotest.Shard) { h.Trimmed = 4 }
	for name, test := range map[string]struct {
		began, while func(*dynamotest.Shard)
		want         []string
	}{
		"before it begins":  {began: trim, want: []string{"5", "6"}},
		"under an iterator": {while: trim, want: []string{"1", "5", "6"}},
		"with the last place": {while: func(h *dynamotest.Shard) {
			trim(h)
			h.Stream.Server.Generation++
		}, want: []string{"1", "5", "6"}},
		"all that was not read": {while: func(h *dynamotest.Shard) { h.Trimmed = 6 }, want: []string{"1"}},
		"all, and it is closed": {while: func(h *dynamotest.Shard) {
			h.Trimmed, h.Closed = 6, true
		}, want: []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 1
			a := f.stream.NewShard("a", nil).Put("1", "2", "3", "4", "5", "6")
			if test.began != nil {
				a.Update(test.began)
			}
			first := true
			f.drain(f.handleThen(func() {
				if first && test.while != nil {
					a.Update(test.while)
				}
				first = false
			}))
			f.checkSeen(test.want...)
			if n := len(f.server.Log()); n > 30 {
				t.Errorf("%d requests for 6 records", n)
			}
		})
	}
}

// A process begins with a position whose records were trimmed.
func TestFollowBeginsAtTheHorizonWhenItsPlaceIsTrimmed(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	a := f.stream.NewShard("a", nil).Put("1", "2")
	f.drain(f.handleAll)
	a.Put("3", "4", "5")
	a.Update(func(h *dynamotest.Shard) { h.Trimmed = 4 })
	f.drain(f.handleAll)
	f.checkSeen("1", "2", "5")
}

func TestFollowSkipsRecordsOfUnknownShape(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]map[string]any{
		"nothing in it":    {},
		"no table part":    {"eventName": "MODIFY", "eventID": "1"},
		"null table part":  {"eventName": "MODIFY", "dynamodb": nil},
		"empty table part": {"eventName": "MODIFY", "dynamodb": map[string]any{}},
		"no images": {
			"eventName": "REMOVE",
			"dynamodb": map[string]any{"Keys": map[string]any{
				"PK": dynamotest.StringValue("a"), "SK": dynamotest.StringValue("b"),
			}},
		},
		"no sequence": {"eventName": "MODIFY", "dynamodb": map[string]any{"SequenceNumber": nil}},
		"unknown event": {
			"eventName": "EXPLODE",
			"dynamodb":  map[string]any{"NewImage": map[string]any{"PK": dynamotest.StringValue("a")}},
		},
		"unknown members": {"eventName": "MODIFY", "new": 1, "dynamodb": map[string]any{"new": []any{1}}},
		"unknown type": {
			"eventName": "MODIFY",
			"dynamodb":  map[string]any{"NewImage": map[string]any{"PK": map[string]any{"X": "1"}}},
		},
		"types not of ours": {
			"eventName": "MODIFY",
			"dynamodb": map[string]any{"OldImage": map[string]any{
				"s": map[string]any{"SS": []string{"a"}}, "b": map[string]any{"B": "YQ=="},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, batch := range []int{1, 2, 100} {
				f := newFollowedTable(t)
				f.server.Batch = batch
				a := f.stream.NewShard("a", nil).Put("1")
				a.Add(record)
				a.Put("2")
				a.Add(record)
				a.Put("3")
				f.drain(f.handleAll)
				f.checkSeen("1", "2", "3")
				f.seen = nil
				a.Put("4")
				f.drain(f.handleAll)
				f.checkSeen("4")
			}
		})
	}
}

// Records without a sequence number do not change the position.
func TestFollowKeepsItsPlaceOverRecordsWithoutSequence(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.server.Batch = 2
	a := f.stream.NewShard("a", nil).Put("1")
	a.Add(map[string]any{"eventName": "MODIFY"})
	a.Put("2")
	f.drain(f.handleThen(f.server.Expire))
	f.checkSeen("1", "2")
}

// checkHandled checks that each name was handled once, in any order.
func (f *followedTable) checkHandled(names ...string) {
	f.Helper()
	got := slices.Sorted(slices.Values(f.seen))
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), got); diff != "" {
		f.Errorf("handled (-want +got):\n%s", diff)
	}
}

// numberedNames returns n names with a prefix.
func numberedNames(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, prefix+strings.Repeat("i", i))
	}
	return names
}
