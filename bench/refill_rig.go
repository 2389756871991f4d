package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// Names of the takers in tables.
const (
	nameExact      = "zae-limiter, exact"
	nameSpeculator = "speculative, no memory"
)

// refillRig is a table whose stream is followed.
type refillRig struct {
	endpoint string
	repo     *dynamo.Repository // the aggregator's
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

	return &refillRig{endpoint: endpoint, repo: repo}, err
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

	stored := newSpeculator(g.endpoint, g.repo.NamespaceID(), entity)
	was, err := stored.read(ctx)
	if err != nil {
		return loaded{}, err
	}

	if err := under.run(ctx, l.arrivals(span, seed), looks); err != nil {
		return loaded{}, err
	}

	is, err := stored.read(ctx)
	if err != nil {
		return loaded{}, err
	}

	return under.loaded, under.checkBalance(was, is)
}

// join creates the takers.
func (g *refillRig) join(ctx context.Context, under *loading, l load, entity string) error {
	for range l.takers {
		var t taker = newSpeculator(g.endpoint, g.repo.NamespaceID(), entity)
		if l.who != nameSpeculator {
			var err error
			if t, err = newService(ctx, g.endpoint, entity, under.begin, l.who == nameExact); err != nil {
				return err
			}
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
