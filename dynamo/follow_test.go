package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// follow reads the table's stream to its end.
func (s *storedTable) follow(handle func(context.Context, []dynamo.StreamRecord) (int, error)) error {
	s.Helper()
	return s.Repo.Follow(s.Context(), &dynamo.FollowOptions{UntilEmpty: true, Pause: time.Millisecond}, handle)
}

// usageCounter returns a handler that aggregates usage.
func (s *storedTable) usageCounter() func(context.Context, []dynamo.StreamRecord) (int, error) {
	a, err := aggregator.New(s.Repo.UsageStore(0), nil)
	s.Must(err)
	return func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		t := dynamo.Aggregate(ctx, a, records)
		return t.Done, t.Err
	}
}

// totalUsage returns the usage of a limit in all windows of a kind.
func (s *storedTable) totalUsage(entity, limit string, window limiter.Window) (sum int64) {
	s.Helper()
	for _, u := range dynamotest.Collect(
		s.T, s.Repo.Usage(s.Context(), limiter.UsageQuery{Entity: entity, Window: window}),
	) {
		sum += u.Counters[limit]
	}
	return sum
}

func TestFollowCountsWhatTheStreamSays(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 1_000_000))
	var want int64
	round := func(n int) {
		for i := range n {
			entity := fmt.Sprintf("key-%d", i%3)
			out, err := s.Repo.Consume(t.Context(), dynamotest.Dawn, limiter.Charge{
				Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1).And("tpm", 100),
			})
			s.Must(err)
			want += 100
			if i%4 == 0 {
				s.Must(s.Repo.Credit(t.Context(), dynamotest.Dawn, limiter.Credit{
					Account: out.Payers[0].Account, Amounts: limiter.Tokens("tpm", 30),
				}))
				want -= 30
			}
		}
	}
	check := func(what string) {
		t.Helper()
		for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
			var got int64
			for i := range 3 {
				got += s.totalUsage(fmt.Sprintf("key-%d", i), "tpm", window)
			}
			s.Equal(what+" "+string(window), got, want)
		}
	}
	round(20)
	s.Must(s.follow(s.usageCounter()))
	check("read once")
	s.Must(s.follow(s.usageCounter()))
	check("and again, when there is nothing new")
	round(20)
	count := s.usageCounter()
	calls := 0
	s.Must(s.follow(func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		if calls++; calls%2 == 1 { // handles a part, then fails
			done, _ := count(ctx, records)
			return min(done, len(records)/3), errors.New("down")
		}
		return count(ctx, records)
	}))
	check("with failures")
}

// A process that dies before it stores its position begins at the last stored
// one.
func TestFollowBeginsWhereItWas(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, perMinute)
	ctx, cancel := context.WithCancel(t.Context())
	var seen []string
	note := func(records []dynamo.StreamRecord) {
		for _, r := range records {
			if _, _, ok := r.Change(); ok {
				seen = append(seen, r.Sequence)
			}
		}
	}
	s.charge("alice", 1)
	err := s.Repo.Follow(ctx, nil, func(_ context.Context, records []dynamo.StreamRecord) (int, error) {
		note(records)
		cancel()
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.charge("alice", 1)
	for range 2 {
		s.Must(s.follow(func(_ context.Context, records []dynamo.StreamRecord) (int, error) {
			note(records)
			return len(records), nil
		}))
	}
	if len(seen) != 3 || seen[0] != seen[1] || seen[2] <= seen[1] {
		t.Errorf("saw %v; want the first twice, then the second once", seen)
	}
}

func (s *storedTable) charge(entity string, n int64) {
	s.Helper()
	_, err := s.Repo.Consume(s.Context(), dynamotest.Dawn, limiter.Charge{
		Entity: entity, Resource: "gpt-4", Amounts: limiter.Tokens(perMinute.Name, n),
	})
	s.Must(err)
}

func TestFollowNeedsAStream(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	_, err := s.Client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: &s.TableName, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)},
	})
	s.Must(err)
	if err := s.follow(s.usageCounter()); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
