package dynamo_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// endureAggregated has an aggregator run during the calls of a history, with a
// network that is no better and the latest time of all clients.
func endureAggregated(t *testing.T, seed uint64, ops int) {
	t.Helper()
	s := dynamotest.NewWriteLog(t, dynamotest.NewTable(t))
	e := newEndured(t, s.Table, s.Config)
	network := dynamotest.NewProxy(t, nil)
	store := dynamotest.Connect(t, s.Table, &dynamo.Options{AWS: dynamotest.Config(network.URL)}).UsageStore(0)
	b := dynamotest.NewAggregator(t, s, store, aggregator.Options{})
	b.Rand, b.Eager, b.Failing = rand.New(rand.NewPCG(seed, 3)), 3, true
	network.SetPlan(badDays(seed + 2))
	var totals map[repotest.Net]int64
	b.RunDuring(func(wake func(time.Duration)) {
		for i, c := range e.clients {
			e.clients[i] = &dynamotest.Aggregated{Repository: c, Aggregator: b, Wake: wake}
		}
		totals = e.endure(seed, ops)
	})
	network.SetPlan(nil)
	b.Failing = false
	b.CatchUp(t.Context())
	e.counted(totals)
	t.Logf("seed %d: %d operations, %d records, %d refills, %d refused", seed, ops, len(s.From(0)), b.Refilled, b.Refused)
	if b.Refilled == 0 {
		t.Error("nothing was refilled")
	}
}

// endureFollowed is endureAggregated with the engine's own stream.
func endureFollowed(t *testing.T, seed uint64, ops int) {
	t.Helper()
	e := newEndured(t, streamingTable(t), dynamotest.Config)
	b := &dynamotest.Aggregator{} // of which only the time of calls is used
	a, err := aggregator.New(e.admin.UsageStore(0), &aggregator.Options{Now: func() time.Time { return b.Latest() }})
	must(t, err)
	refills := 0
	count := func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		tally := dynamo.Aggregate(ctx, a, records)
		refills += tally.Refills
		return tally.Done, tally.Err
	}
	for i, c := range e.clients {
		e.clients[i] = &dynamotest.Aggregated{Repository: c, Aggregator: b}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.admin.Follow(ctx, &dynamo.FollowOptions{Pause: time.Millisecond}, count) }()
	totals := e.endure(seed, ops)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, e.admin.Follow(t.Context(), &dynamo.FollowOptions{UntilEmpty: true, Pause: time.Millisecond}, count))
	e.counted(totals)
	t.Logf("seed %d: %d operations, %d refills", seed, ops, refills)
	if refills == 0 {
		t.Error("nothing was refilled")
	}
}

// streamingTable is a table with a stream that removes nothing by itself.
func streamingTable(t *testing.T) string {
	t.Helper()
	name := dynamotest.TableName(t)
	must(t, dynamo.CreateTable(t.Context(), name, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}))
	_, err := dynamotest.Client(t).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)},
	})
	must(t, err)
	return name
}

// counted checks that usage is what buckets say was consumed, in every window.
func (e *endured) counted(totals map[repotest.Net]int64) {
	e.Helper()
	for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		for net, total := range totals {
			var sum int64
			for u, err := range e.admin.Usage(e.Context(), limiter.UsageQuery{Entity: net.Entity, Resource: net.Resource, Window: window}) {
				must(e, err)
				sum += u.Counters[net.Limit]
			}
			if sum*1000 != total {
				e.Errorf("%s of %s and %s: %s usage is %d, but the bucket counts %d thousandths", net.Limit, net.Entity, net.Resource, window, sum, total)
			}
		}
	}
}
