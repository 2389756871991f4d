package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const bothImages = "NEW_AND_OLD_IMAGES"

// Follow reads the old stream to its end, then the new one.
func TestFollowGoesOnWithTheStreamThatReplacesIt(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*followedTable){
		"at once": func(f *followedTable) { f.server.SwitchOff() },
		"and the old one is gone": func(f *followedTable) {
			f.server.SwitchOff()
			f.stream.Remove()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.server.Batch = 2
			p := f.stream.NewShard("p", nil).Put("1", "2", "3").Close()
			f.stream.NewShard("a", p).Put("4")
			first := true
			f.drain(f.handleThen(func() {
				if first {
					replace(f)
					f.server.Replace(bothImages).NewShard("a", nil).Put("5", "6", "7")
				}
				first = false
			}))
			if f.stream.Gone {
				f.checkSeen("1", "2", "5", "6", "7")
			} else {
				f.checkSeen("1", "2", "3", "4", "5", "6", "7")
			}
			if f.drain(f.handleAll); len(f.seen) > 7 {
				t.Errorf("read again: %v", f.seen)
			}
		})
	}
}

// A stream has to be switched off before there can be another, which takes a
// while. Without UntilEmpty, Follow waits for it.
func TestFollowWaitsForTheNextStream(t *testing.T) {
	t.Parallel()
	f := newFollowedTable(t)
	f.stream.NewShard("a", nil).Put("1")
	ctx, cancel := context.WithCancel(t.Context())
	tables := 0
	f.server.SetFaults(func(op string, _ []byte) dynamotest.Fault {
		if op != "DescribeTable" {
			return dynamotest.Pass
		}
		switch tables++; tables {
		case 10, 11: // has to be retried
			return dynamotest.Throttle
		case 30:
			f.server.Replace(bothImages).NewShard("a", nil).Put("2")
		}
		return dynamotest.Pass
	})
	err := f.follow(ctx, dynamo.FollowOptions{}, f.handleThen(func() {
		f.server.SwitchOff()
		if len(f.seen) == 2 {
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.checkSeen("1", "2")
}

func TestFollowEndsWithoutAStream(t *testing.T) {
	t.Parallel()
	notFound := func(err error) bool { return errors.Is(err, limiter.ErrNotFound) }
	unavailable := isError[*limiter.UnavailableError]
	for name, test := range map[string]struct {
		faults dynamotest.Plan // after the stream is off
		view   string
		empty  bool
		right  func(error) bool
		says   string
	}{
		"off":                       {right: notFound, says: "lost its stream"},
		"off, and all is read":      {empty: true, right: func(err error) bool { return err == nil }},
		"the new one has keys only": {view: "KEYS_ONLY", right: notFound, says: "new and old images"},
		"the new one has one image": {view: "NEW_IMAGE", empty: true, right: notFound, says: "NEW_IMAGE"},
		"the table is gone": {
			faults: dynamotest.First(1, "DescribeTable",
				streamFault(http.StatusBadRequest, "ResourceNotFoundException")),
			right: notFound, says: "dynamo.CreateTable",
		},
		"the table cannot be asked": {
			faults: dynamotest.First(1000, "DescribeTable", dynamotest.Fail500), right: unavailable,
			says: "InternalServerError",
		},
		"nor when all has been read": {
			faults: dynamotest.First(1000, "DescribeTable", dynamotest.Fail500), empty: true,
			right: unavailable, says: "InternalServerError",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedTable(t)
			f.stream.NewShard("a", nil).Put("1")
			err := f.follow(t.Context(), dynamo.FollowOptions{UntilEmpty: test.empty}, f.handleThen(func() {
				f.server.SwitchOff()
				if test.view != "" {
					f.server.Replace(test.view)
				}
				if test.faults != nil {
					f.server.SetFaults(test.faults)
				}
			}))
			if !test.right(err) {
				t.Fatal(err)
			}
			if err != nil {
				checkError(t, err, test.says)
			}
			f.checkSeen("1")
		})
	}
}

// A change can only be computed from both images.
func TestFollowNeedsBothImages(t *testing.T) {
	t.Parallel()
	for _, view := range []string{"KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE"} {
		f := newFollowedTable(t)
		f.server.Replace(view).NewShard("a", nil).Put("1")
		err := f.follow(t.Context(), dynamo.FollowOptions{UntilEmpty: true}, f.handleAll)
		if !errors.Is(err, limiter.ErrNotFound) {
			t.Fatal(err)
		}
		checkError(t, err, "new and old images", view)
		f.checkSeen()
	}
}

// The engine behaves as the script does.
func TestFollowGoesOnWithTheNextStreamOfTheEngine(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, perMinute)
	s.charge("alice", 1)
	enable := func(on bool) {
		spec := &types.StreamSpecification{StreamEnabled: aws.Bool(on)}
		if on {
			spec.StreamViewType = types.StreamViewTypeNewAndOldImages
		}
		_, err := s.Client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
			TableName: &s.TableName, StreamSpecification: spec,
		})
		s.Must(err)
	}
	s.Wire.Before(func(c *dynamotest.Call) bool { return c.Op == "GetRecords" }, func() {
		s.charge("bob", 2)
		enable(false)
		enable(true)
		s.charge("bob", 4)
	})
	s.Must(s.follow(s.usageCounter()))
	s.Equal("of the first stream", s.totalUsage("alice", perMinute.Name, limiter.Hourly), int64(1))
	s.Equal("of both", s.totalUsage("bob", perMinute.Name, limiter.Hourly), int64(6))
}
