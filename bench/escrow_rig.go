package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// Names of the contenders in tables.
const (
	nameEscrow    = "zae-limiter, escrow"
	nameMemory    = "zae-limiter, memory"
	nameRedisRate = "redis_rate"
)

// escrowResource has limits that never run out at a million calls a second.
const escrowResource = "hot"

// workload is a pattern of calls.
type workload struct {
	name string
	keys int
	llm  bool // adjusts what was estimated
}

const mostKeys = 100 // of a workload

func workloads() []workload {
	return []workload{
		{"one hot key", 1, false},
		{fmt.Sprintf("%d keys, Zipf", mostKeys), mostKeys, false},
		{"LLM, one hot key", 1, true},
	}
}

// growth returns the samples that pots need to grow to their size: longer than a
// hold for one, and more for many, since each grows by requests of its own.
func (w workload) growth() int {
	const one, many = 3, 10
	if w.keys > 1 {
		return many
	}
	return one
}

// acquires returns a call of the workload. Three of four calls of a language
// model use less than the estimate, or more.
func (w workload) acquires(lim *limiter.RateLimiter) func(context.Context, *picker) error {
	amounts := limiter.Tokens("rpm", 1).And("tpm", 500)
	return func(ctx context.Context, keys *picker) error {
		lease, err := lim.Acquire(ctx, limiter.Request{Entity: keys.next(), Resource: escrowResource, Consume: amounts})
		if err != nil {
			return err
		}

		if w.llm {
			if err := lease.Used("tpm", 300+int64(keys.at%4)*100); err != nil {
				return err
			}
		}

		return lease.Commit(ctx)
	}
}

// escrowRig holds the clients of one table, and those without one.
type escrowRig struct {
	*rig                              // the raw call and the plain acquire
	table          *dynamo.Repository // below the escrow
	escrow         *escrow.Repository
	held, inMemory *limiter.RateLimiter
	redis          *rateOnRedis // may be nil
	memory         *memory.Repository
}

// newEscrowRig prepares a table and connects to it.
func newEscrowRig(ctx context.Context, endpoint string, redis *rateOnRedis) (_ *escrowRig, err error) {
	if err := prepare(ctx, endpoint); err != nil {
		return nil, err
	}

	g := &escrowRig{memory: memory.New(nil), redis: redis}
	if g.rig, err = newRig(ctx, endpoint); err != nil {
		return nil, err
	}

	cfg := awsConfig()
	if g.table, err = dynamo.Connect(ctx, benchTable, &dynamo.Options{
		Endpoint: endpoint, AWS: &cfg, Timeout: patience,
	}); err != nil {
		// Without an escrow, only the rig can be closed.
		return nil, errors.Join(err, g.rig.close())
	}

	g.escrow = escrow.New(g.table, nil) //nolint:contextcheck // it works until Close
	g.held, err = limiter.New(g.escrow, nil)
	if err == nil {
		g.inMemory, err = limiter.New(g.memory, nil)
	}
	if err == nil {
		// The plain acquire and the escrow share the buckets of one table.
		err = errors.Join(fillHalf(ctx, g.lim), fillHalf(ctx, g.inMemory))
	}

	if err != nil {
		return nil, errors.Join(err, g.close()) //nolint:contextcheck // Close takes none
	}
	return g, nil
}

// fillHalf stores the limits, and takes half of every bucket: a full one would
// need another write.
func fillHalf(ctx context.Context, lim *limiter.RateLimiter) error {
	stored := []limiter.Limit{
		limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute),
	}
	if err := lim.SetResourceDefaults(ctx, escrowResource, stored...); err != nil {
		return err
	}

	half := limiter.Tokens("rpm", plenty/2).And("tpm", plenty/2)
	keys := newKeyset(mostKeys).keys

	// Each key has a worker, since a table answers slowly.
	return parallel(len(keys), func(worker, _ int) error {
		lease, err := lim.Acquire(ctx, limiter.Request{Entity: keys[worker], Resource: escrowResource, Consume: half})
		if err != nil {
			return err
		}
		return lease.Commit(ctx)
	})(len(keys))
}

// probes returns all ways to make the calls of a workload, with each number of
// callers. redis_rate cannot give back, so it has no part in a workload that
// does.
func (g *escrowRig) probes(w workload, callers []int) (all []hotProbe) {
	const few = 8
	raw := rawUpdate(g.raw, g.input)

	for _, n := range callers {
		all = append(all,
			hotProbe{id: caller{nameRaw, n}, every: 1, warm: 1, call: func(ctx context.Context, _ *picker) error {
				return raw(ctx)
			}},
			hotProbe{id: caller{nameOurs, n}, every: 1, warm: 1, call: w.acquires(g.lim), requests: func() int64 {
				return g.repo.Stats().Requests
			}},
			hotProbe{
				id: caller{nameEscrow, n}, every: few, warm: w.growth(), call: w.acquires(g.held),
				requests: func() int64 {
					return g.table.Stats().Requests
				}, held: func() int64 { return g.escrow.Stats().Held },
			},
			hotProbe{id: caller{nameMemory, n}, every: few, warm: 1, call: w.acquires(g.inMemory)})

		if g.redis != nil && !w.llm {
			all = append(all, hotProbe{id: caller{nameRedisRate, n}, every: 1, warm: 1, call: g.redis.allow})
		}
	}
	return all
}

func (g *escrowRig) close() error {
	return errors.Join(g.escrow.Close(), g.memory.Close(), g.rig.close())
}

// keyset returns the keys of the workload.
func (w workload) keyset() *keyset {
	if w.keys == 1 {
		return newKeyset(1)
	}
	return newZipfKeyset(w.keys)
}
