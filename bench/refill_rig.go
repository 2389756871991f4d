package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// nameExact is the name of the takers without slack in tables.
const nameExact = "zae-limiter, exact"

// refillRig is a table whose stream is followed.
type refillRig struct {
	endpoint string
	repo     *dynamo.Repository // the aggregator's
	raw      *dynamodb.Client
	runs     int
}

func newRefillRig(ctx context.Context, endpoint string) (*refillRig, error) {
	opts := countedOptions(endpoint, false)
	if err := dynamo.CreateTable(ctx, refillTable, opts); err != nil {
		return nil, err
	}

	repo, err := dynamo.Connect(ctx, refillTable, opts)
	if err != nil {
		return nil, err
	}

	lim, err := limiter.New(repo, nil)
	if err == nil {
		err = lim.SetSystemDefaults(ctx, refillLimits()...)
	}

	return &refillRig{endpoint: endpoint, repo: repo, raw: newRawClient(endpoint, tunedClient())}, err
}

func (g *refillRig) close() error { return g.repo.Close() }

// run puts a load on a bucket of its own, and checks its balance afterwards.
func (g *refillRig) run(
	ctx context.Context, l load, aggregated bool, span time.Duration, seed uint64,
) (_ loaded, err error) {
	g.runs++
	entity := fmt.Sprintf("entity-%d", g.runs)
	// The store counts milliseconds, so the time of the load begins with a
	// whole one.
	under := &loading{table: g, begin: time.UnixMilli(time.Now().UnixMilli())}
	defer func() { err = errors.Join(err, under.close()) }()

	var looks []time.Duration
	if aggregated {
		looks = steady(l.looks, span, seed)
	}

	// Records of earlier loads and of the fill do not belong to this load.
	if err := errors.Join(
		g.fill(ctx, entity, under.begin, l.left), g.join(ctx, under, l, entity), g.follow(ctx, skip),
	); err != nil {
		return loaded{}, err
	}

	was, err := g.stored(ctx, entity)
	if err != nil {
		return loaded{}, err
	}

	if err := under.run(ctx, l.arrivals(span, seed), looks); err != nil {
		return loaded{}, err
	}

	is, err := g.stored(ctx, entity)
	if err != nil {
		return loaded{}, err
	}

	return under.loaded, under.checkBalance(was, is)
}

// join creates the takers.
func (g *refillRig) join(ctx context.Context, under *loading, l load, entity string) error {
	for range l.takers {
		t, err := newService(ctx, g.endpoint, entity, under.begin, l.who == nameExact)
		if err != nil {
			return err
		}
		under.takers = append(under.takers, t)
	}
	return nil
}

// fill creates the bucket, with enough tokens for that many calls.
func (g *refillRig) fill(ctx context.Context, entity string, now time.Time, left int64) error {
	var amounts limiter.Amounts
	for i, each := range []int64{1, tpmEach} {
		l := refillLimits()[i]
		// A new bucket is full, so the charge leaves what the load begins with.
		amounts = amounts.And(l.Name, l.Capacity-left*each)
	}

	out, err := g.repo.Consume(ctx, now, limiter.Charge{Entity: entity, Resource: benchResource, Amounts: amounts})
	if err == nil && !out.Admitted {
		err = errors.New("a new bucket is not full")
	}
	return err
}

// follow handles the new records of the stream.
func (g *refillRig) follow(
	ctx context.Context, handle func(context.Context, []dynamo.StreamRecord) (int, error),
) error {
	return g.repo.Follow(ctx, &dynamo.FollowOptions{UntilEmpty: true}, handle)
}

// skip ignores older records of the stream.
func skip(_ context.Context, records []dynamo.StreamRecord) (int, error) { return len(records), nil }

// aggregate counts the new records of the stream, and refills as of now.
func (g *refillRig) aggregate(ctx context.Context, now time.Time) error {
	a, err := aggregator.New(g.repo.UsageStore(0), &aggregator.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}

	return g.follow(ctx, func(ctx context.Context, records []dynamo.StreamRecord) (int, error) {
		tally := dynamo.Aggregate(ctx, a, records)
		return tally.Done, tally.Err
	})
}

// storedBucket holds the balances of a bucket, in thousandths, and the time of
// its refill.
type storedBucket struct{ refilled, rpm, tpm int64 }

// stored returns the stored bucket of an entity.
func (g *refillRig) stored(ctx context.Context, entity string) (b storedBucket, err error) {
	out, err := g.raw.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(refillTable), ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
			"PK": text(g.repo.NamespaceID() + "/ENTITY#" + entity), "SK": text("#BUCKET#" + benchResource),
		},
	})
	if err != nil {
		return b, err
	}

	for attr, to := range map[string]*int64{"rf": &b.refilled, "b_rpm_tk": &b.rpm, "b_tpm_tk": &b.tpm} {
		if n, ok := out.Item[attr].(*types.AttributeValueMemberN); ok {
			// Our store writes whole numbers.
			*to, _ = strconv.ParseInt(n.Value, 10, 64)
		}
	}
	return b, nil
}

// tripsKey is the context key of a call's request counter.
type tripsKey struct{}

// tripCounter counts the requests of each call.
type tripCounter struct{ aws.HTTPClient }

func (c tripCounter) Do(req *http.Request) (*http.Response, error) {
	if sent, ok := req.Context().Value(tripsKey{}).(*atomic.Int64); ok {
		sent.Add(1)
	}
	return c.HTTPClient.Do(req)
}

// service takes from a shared bucket. It knows about other takers only what the
// table shows, like a separate process. It reads the limits once, since they never
// change here: only requests for the bucket are counted.
type service struct {
	repo   *dynamo.Repository
	entity string
}

// newService returns a service that has cached the bucket at now.
func newService(ctx context.Context, endpoint, entity string, now time.Time, exact bool) (*service, error) {
	repo, err := dynamo.Connect(ctx, refillTable, countedOptions(endpoint, exact))
	if err != nil {
		return nil, err
	}

	s := &service{repo, entity}
	// A charge of 0 fills the cache and takes nothing.
	_, err = s.consume(ctx, now, limiter.Tokens("rpm", 0))
	return s, err
}

func countedOptions(endpoint string, exact bool) *dynamo.Options {
	cfg := awsConfig()
	cfg.HTTPClient = tripCounter{tunedClient()}
	return &dynamo.Options{Endpoint: endpoint, AWS: &cfg, Exact: exact, CacheTTL: 24 * time.Hour}
}

// take makes a call and returns its number of requests.
func (s *service) take(ctx context.Context, now time.Time) (admitted bool, trips int64, err error) {
	var sent atomic.Int64
	admitted, err = s.consume(context.WithValue(ctx, tripsKey{}, &sent), now,
		limiter.Tokens("rpm", 1).And("tpm", tpmEach))
	return admitted, sent.Load(), err
}

func (s *service) consume(ctx context.Context, now time.Time, amounts limiter.Amounts) (bool, error) {
	out, err := s.repo.Consume(ctx, now, limiter.Charge{Entity: s.entity, Resource: benchResource, Amounts: amounts})
	return out.Admitted, err
}
