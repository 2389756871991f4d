package main

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Names in the measured table.
const (
	benchTable    = "bench"
	benchResource = "gpt-4"
	loner         = "loner" // has no parent
	childEntity   = "child" // cascades to parentEntity
	parentEntity  = "parent"
)

// Names of the contenders in tables.
const (
	nameRaw     = "raw UpdateItem"
	nameCascade = "zae-limiter, cascade"
	namePython  = "Python"
)

// The limits refill so slowly that a half-empty bucket never fills, and hold
// so much that it never runs out. Every acquire is therefore a plain write.
const rpmCapacity, tpmCapacity = 1e9, 1e10

func benchLimits() []limiter.Limit {
	return []limiter.Limit{
		limiter.Custom("rpm", rpmCapacity, 1000, time.Hour),
		limiter.Custom("tpm", tpmCapacity, 10_000, time.Hour),
	}
}

func benchAmounts() limiter.Amounts { return limiter.Tokens("rpm", 1).And("tpm", 100) }

// patience is the time that a call to a table may take: an engine on a busy
// machine stalls now and then.
const patience = 10 * time.Second

// rig holds the warm Go clients of one table.
type rig struct {
	repo  *dynamo.Repository
	lim   *limiter.RateLimiter
	raw   *dynamodb.Client
	input *dynamodb.UpdateItemInput
}

// prepare creates the table with its entities and their buckets, once for each
// endpoint.
func prepare(ctx context.Context, endpoint string) error {
	cfg := awsConfig()
	opts := &dynamo.Options{Endpoint: endpoint, AWS: &cfg}
	if err := dynamo.CreateTable(ctx, benchTable, opts); err != nil {
		return err
	}

	g, err := connect(ctx, opts)
	if err != nil {
		return err
	}

	// A bucket that is half empty takes plain writes only.
	half := limiter.Tokens("rpm", rpmCapacity/2).And("tpm", tpmCapacity/2)
	steps := []func() error{
		func() error { return g.lim.SetSystemDefaults(ctx, benchLimits()...) },
		func() error {
			_, err := g.lim.CreateEntity(ctx, limiter.Entity{ID: childEntity, Parent: parentEntity, Cascade: true})
			return err
		},
		func() error { return g.acquire(ctx, loner, half) },
		// The cascade also creates the bucket of the parent.
		func() error { return g.acquire(ctx, childEntity, half) },
	}

	for _, step := range steps {
		if err := step(); err != nil {
			return errors.Join(err, g.close())
		}
	}
	return g.close()
}

func connect(ctx context.Context, opts *dynamo.Options) (*rig, error) {
	repo, err := dynamo.Connect(ctx, benchTable, opts)
	if err != nil {
		return nil, err
	}
	lim, err := limiter.New(repo, nil)
	return &rig{repo: repo, lim: lim}, err
}

// newRig connects to a prepared table.
func newRig(ctx context.Context, endpoint string) (*rig, error) {
	recorded, err := record(ctx, endpoint)
	if err != nil {
		return nil, err
	}

	input, err := recorded.input()
	if err != nil {
		return nil, err
	}

	// Without an HTTP client in the options, the store makes its own.
	cfg := awsConfig()
	g, err := connect(ctx, &dynamo.Options{Endpoint: endpoint, AWS: &cfg, Timeout: patience})
	if err != nil {
		return nil, err
	}

	g.raw, g.input = newRawClient(endpoint, tunedClient()), input
	if err := g.warm(ctx); err != nil {
		return nil, errors.Join(err, g.close())
	}

	return g, nil
}

// record records the update that our store sends for a warm acquire.
func record(ctx context.Context, endpoint string) (*recorder, error) {
	cfg, r := awsConfig(), &recorder{HTTPClient: tunedClient()}
	cfg.HTTPClient = r

	g, err := connect(ctx, &dynamo.Options{Endpoint: endpoint, AWS: &cfg})
	if err != nil {
		return nil, err
	}
	// The acquires of warm fill the cache, so the last update is a warm one.
	return r, errors.Join(g.warm(ctx), g.acquire(ctx, loner, benchAmounts()), g.close())
}

// warm makes the store cache both entities and their buckets.
func (g *rig) warm(ctx context.Context) error {
	return errors.Join(g.acquire(ctx, loner, benchAmounts()), g.acquire(ctx, childEntity, benchAmounts()))
}

func (g *rig) acquire(ctx context.Context, entity string, amounts limiter.Amounts) error {
	lease, err := g.lim.Acquire(ctx, limiter.Request{Entity: entity, Resource: benchResource, Consume: amounts})
	if err != nil {
		return err
	}
	return lease.Commit(ctx)
}

// acquires returns a call that acquires and commits. The request is made once.
func (g *rig) acquires(entity string) func(context.Context) error {
	amounts := benchAmounts()
	return func(ctx context.Context) error { return g.acquire(ctx, entity, amounts) }
}

// probes returns all ways to call the table, with each number of callers.
// python may be nil.
func (g *rig) probes(ctx context.Context, callers []int, python *pythonTable) (all []probe) {
	for _, n := range callers {
		all = append(all,
			inProcess(ctx, caller{nameRaw, n}, rawUpdate(g.raw, g.input)),
			inProcess(ctx, caller{nameOurs, n}, g.acquires(loner)),
			inProcess(ctx, caller{nameCascade, n}, g.acquires(childEntity)))
		if python != nil {
			all = append(all, python.probe(n))
		}
	}
	return all
}

func (g *rig) close() error { return g.repo.Close() }
