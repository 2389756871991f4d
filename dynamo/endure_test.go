package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// randomFaults returns a plan in which one request of a dozen fails in a random
// way.
func randomFaults(seed uint64) dynamotest.Plan {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	faults := []dynamotest.Fault{
		dynamotest.DropReply, dynamotest.ResetBefore, dynamotest.Fail500, dynamotest.Fail500After,
		dynamotest.Throttle, dynamotest.Conflict, dynamotest.Delay(time.Millisecond), dynamotest.Unprocessed,
	}
	return func(op string, _ []byte) dynamotest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(12) > 0 {
			return dynamotest.Pass
		}
		f := faults[rng.IntN(len(faults))]
		if f.Name == dynamotest.Unprocessed.Name && op != "BatchGetItem" || f.Name == dynamotest.Conflict.Name &&
			(op == "BatchGetItem" || op == "GetItem") {
			return dynamotest.Pass
		}
		return f
	}
}

// TestEndure runs two processes with slack, remembered refusals and a bad
// network on one table. No window may admit more than the limits and the slack
// allow, and nothing may be given back twice. This also holds while an
// aggregator refills their buckets, and the aggregator has to count everything
// that was consumed.
func TestEndure(t *testing.T) {
	t.Parallel()
	next := *compareSeed
	for left := *compareOps / 2; left > 0; left -= perHistory / 2 { // each takes several requests
		seed, ops := next, min(left, perHistory/2)
		next++
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			newEndurance(t, dynamotest.NewTable(t), dynamotest.Config).endure(seed, ops)
		})
		t.Run(fmt.Sprintf("seed %d calm", seed), func(t *testing.T) {
			t.Parallel()
			newEndurance(t, dynamotest.NewTable(t), dynamotest.Config).endureCalm(seed, ops)
		})
		t.Run(fmt.Sprintf("seed %d aggregated", seed), func(t *testing.T) {
			t.Parallel()
			endureAggregated(t, seed, ops/2)
		})
	}
	t.Run("with its stream", func(t *testing.T) {
		t.Parallel()
		endureFollowed(t, *compareSeed, min(*compareOps, perHistory)/6)
	})
}

// endurance is two processes with one table. Their networks are bad, the admin's
// is not.
type endurance struct {
	*testing.T
	table    string
	admin    *dynamo.Repository
	clients  []limiter.Repository
	networks []*dynamotest.Proxy
	hooks    []*interleaved
}

// interleaved is a client that lets other calls run during its requests.
type interleaved struct {
	*dynamo.Repository
	lossy bool
	step  atomic.Pointer[func()]
}

// Lossy reports whether requests may get lost.
func (c *interleaved) Lossy() bool { return c.lossy }

// Interleave sets the step to run during requests.
func (c *interleaved) Interleave(step func()) { c.step.Store(&step) }

// plan adds steps before and after some of the requests of a plan.
func (c *interleaved) plan(seed uint64, network dynamotest.Plan) dynamotest.Plan {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 4))
	chance := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(12) == 0
	}
	step := func() {
		do := c.step.Load()
		if do == nil || !chance() {
			return
		}
		done := make(chan struct{})
		go func() { defer close(done); (*do)() }()
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond): // the step waits for this request, to share its reply
		}
	}
	return func(op string, body []byte) dynamotest.Fault {
		step()
		if f := network(op, body); f.Name != dynamotest.Pass.Name {
			return f
		}
		return dynamotest.Fault{Name: dynamotest.Pass.Name, Act: func(x *dynamotest.Exchange) {
			reply := x.Execute(x.Body)
			step()
			x.Answer(reply)
		}}
	}
}

// newEndurance connects both processes with a config such as dynamotest.Config.
func newEndurance(t *testing.T, table string, config func(endpoint string) *aws.Config) *endurance {
	t.Helper()
	e := &endurance{T: t, table: table, admin: dynamotest.Connect(t, table, nil)}
	for range 2 {
		p := dynamotest.NewProxy(t, nil)
		c := &interleaved{Repository: dynamotest.Connect(t, table, &dynamo.Options{AWS: config(p.URL)})}
		e.clients, e.hooks = append(e.clients, c), append(e.hooks, c)
		e.networks = append(e.networks, p)
	}
	return e
}

// endure runs a history on bad networks and returns the total consumption of
// each bucket.
func (e *endurance) endure(seed uint64, ops int) map[repotest.Net]int64 {
	e.Helper()
	for i, p := range e.networks {
		e.hooks[i].lossy = true
		p.SetPlan(e.hooks[i].plan(seed+uint64(i), randomFaults(seed+uint64(i))))
	}
	return e.run(seed, ops)
}

// endureCalm runs a history on networks that lose nothing. Nothing may be
// refused that a bucket holds.
func (e *endurance) endureCalm(seed uint64, ops int) {
	e.Helper()
	for i, p := range e.networks {
		p.SetPlan(e.hooks[i].plan(seed+uint64(i), dynamotest.Always(dynamotest.Pass)))
	}
	e.run(seed, ops)
}

func (e *endurance) run(seed uint64, ops int) map[repotest.Net]int64 {
	e.Helper()
	totals := map[repotest.Net]int64{}
	for _, net := range repotest.Endure(e, seed, ops, 0.02, e.admin, e.clients...) {
		totals[net] = storedTotal(e.T, e.table, e.admin.NamespaceID(), net)
		if totals[net] < net.Least*1000 {
			e.Errorf("seed %d: %s of %s and %s counts %d thousandths, but %d tokens were surely consumed: "+
				"something was given back twice",
				seed, net.Limit, net.Entity, net.Resource, totals[net], net.Least)
		}
	}
	return totals
}

// storedTotal returns the bucket's own count of its net consumption. A bucket that
// was only refused or filled is not stored, and counts nothing.
func storedTotal(t *testing.T, table, ns string, net repotest.Net) int64 {
	t.Helper()
	out, err := dynamotest.Client(t).GetItem(context.Background(), &dynamodb.GetItemInput{
		TableName:      &table,
		ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: ns + "/ENTITY#" + net.Entity},
			"SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + net.Resource},
		},
	})
	must(t, err)
	if out.Item == nil {
		return 0
	}
	n, ok := out.Item["b_"+net.Limit+"_tc"].(*types.AttributeValueMemberN)
	if !ok {
		t.Fatalf("%s of %s and %s has no total: %v", net.Limit, net.Entity, net.Resource, out.Item)
	}
	total, err := strconv.ParseInt(n.Value, 10, 64)
	must(t, err)
	return total
}

// endureAggregated runs a history beside an aggregator with a bad network, whose
// clock is the latest time of all clients.
func endureAggregated(t *testing.T, seed uint64, ops int) {
	t.Helper()
	s := dynamotest.NewWriteLog(t, dynamotest.NewTable(t))
	e := newEndurance(t, s.Table, s.Config)
	network := dynamotest.NewProxy(t, nil)
	store := dynamotest.Connect(t, s.Table, &dynamo.Options{AWS: dynamotest.Config(network.URL)}).UsageStore(0)
	b := dynamotest.NewAggregator(t, s, store, aggregator.Options{})
	b.Rand, b.Eager, b.Failing = rand.New(rand.NewPCG(seed, 3)), 3, true
	network.SetPlan(randomFaults(seed + 2))
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
	e.checkUsage(totals)
	t.Logf("seed %d: %d operations, %d records, %d refills, %d refused", seed, ops, len(s.From(0)), b.Refilled,
		b.Refused)
	if b.Refilled == 0 {
		t.Error("nothing was refilled")
	}
}

// endureFollowed runs endureAggregated with the engine's own stream.
func endureFollowed(t *testing.T, seed uint64, ops int) {
	t.Helper()
	e := newEndurance(t, streamingTable(t), dynamotest.Config)
	b := &dynamotest.Aggregator{} // only observes the time of calls
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
	e.checkUsage(totals)
	t.Logf("seed %d: %d operations, %d refills", seed, ops, refills)
	if refills == 0 {
		t.Error("nothing was refilled")
	}
}

// streamingTable returns a table with a stream and without TTL.
func streamingTable(t *testing.T) string {
	t.Helper()
	name := dynamotest.TableName(t)
	must(t, dynamo.CreateTable(t.Context(), name, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}))
	_, err := dynamotest.Client(t).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String("ttl"), Enabled: aws.Bool(false),
		},
	})
	must(t, err)
	return name
}

// checkUsage checks that the usage of every window equals the consumption of the
// buckets.
func (e *endurance) checkUsage(totals map[repotest.Net]int64) {
	e.Helper()
	for _, window := range []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly} {
		for net, total := range totals {
			var sum int64
			for u, err := range e.admin.Usage(e.Context(), limiter.UsageQuery{
				Entity: net.Entity, Resource: net.Resource, Window: window,
			}) {
				must(e, err)
				sum += u.Counters[net.Limit]
			}
			if sum*1000 != total {
				e.Errorf("%s of %s and %s: %s usage is %d, but the bucket counts %d thousandths", net.Limit,
					net.Entity, net.Resource, window, sum, total)
			}
		}
	}
}
