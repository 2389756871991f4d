package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// waitSection measures the cost of waiting: a busy key on sqlite, alone and
// beside keys that wait for tokens of their own, and a long line of waiters
// that leave.
func waitSection(ctx context.Context, cfg config, r *report) error {
	folder, err := os.MkdirTemp("", "zae-limiter-bench-")
	if err != nil {
		return err
	}

	repo, err := sqlite.Open(ctx, filepath.Join(folder, "wait.db"), nil)
	if err == nil {
		err = errors.Join(besideWaiters(ctx, cfg, r, &callCounter{Repository: repo}), repo.Close())
	}
	if err := errors.Join(err, os.RemoveAll(folder)); err != nil {
		return err
	}

	return leavingLines(ctx, cfg, r)
}

// besideWaiters times a key that acquires, gives a part back and commits: in
// each round alone, then beside the waiters.
func besideWaiters(ctx context.Context, cfg config, r *report, repo *callCounter) error {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}

	// A limit by the day gives a waiter nothing while the section runs.
	if err := lim.SetSystemDefaults(ctx, limiter.PerDay("rpm", 100)); err != nil {
		return err
	}
	if err := lim.SetLimits(ctx, "busy", "", limiter.Custom("rpm", plenty, 1_000_000, time.Minute)); err != nil {
		return err
	}

	waiting := keysOf(cfg.waiters[0])
	if err := exhaust(ctx, lim, waiting); err != nil {
		return err
	}

	busy := func(n int) error { return acquireAndAdjust(ctx, lim, "busy", n) }
	// The first call creates the bucket.
	if err := busy(1); err != nil {
		return err
	}

	n, err := calibrate(busy, cfg.stay)
	if err != nil {
		return err
	}

	var lone, beside series
	// A few rounds suffice, since each is long.
	for range min(cfg.rounds, 3) {
		if lone, err = timedRound(lone, busy, n); err != nil {
			return err
		}

		dissolve, err := startWaiters(ctx, lim, repo, waiting)
		if err != nil {
			return err
		}

		beside, err = timedRound(beside, busy, n)
		if err := errors.Join(err, dissolve(), ctx.Err()); err != nil {
			return err
		}
	}

	ratio := lone.over(beside)
	r.atLeast(0.8, ratio, "wait: throughput of a busy key on sqlite beside %d that wait / alone", cfg.waiters[0])
	return r.table([]string{"a busy key on sqlite", "us/op", "ops/s", "it / alone"}, [][]string{
		{"alone", lone.micros(), throughput(lone), ""},
		{
			"beside " + strconv.Itoa(cfg.waiters[0]) + " keys that wait", beside.micros(), throughput(beside),
			ratio.ratio(),
		},
	})
}

// timedRound adds one sample to a series.
func timedRound(s series, run func(int) error, n int) (series, error) {
	perOp, err := sample(run, n)
	return append(s, perOp), err
}

// acquireAndAdjust acquires, gives back and commits, n times.
func acquireAndAdjust(ctx context.Context, lim *limiter.RateLimiter, entity string, n int) error {
	for range n {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 10),
		})
		if err == nil {
			err = errors.Join(lease.Used("rpm", 4), lease.Commit(ctx))
		}

		if err != nil {
			return err
		}
	}
	return nil
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("waiting-%d", i)
	}
	return keys
}

// callCounter is a store that counts calls.
type callCounter struct {
	limiter.Repository
	times atomic.Int64
}

// Consume counts the call.
func (a *callCounter) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	// The call counts only when it has returned, since startWaiters waits for
	// its end.
	defer a.times.Add(1)
	return a.Repository.Consume(ctx, now, charge)
}

// Peek counts the call, since a waiter in a line peeks.
func (a *callCounter) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	defer a.times.Add(1)
	return a.Repository.Peek(ctx, now, charge)
}

// exhaust takes all tokens of the entities.
func exhaust(ctx context.Context, lim *limiter.RateLimiter, entities []string) error {
	for _, e := range entities {
		if _, err := lim.Acquire(ctx, limiter.Request{
			Entity: e, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 100),
		}); err != nil {
			return err
		}
	}
	return nil
}

// startWaiters starts a waiter for each entity, which has no tokens left, and
// returns when each has made its first call. dissolve cancels the waiters and
// waits for them.
func startWaiters(
	ctx context.Context, lim *limiter.RateLimiter, repo *callCounter, entities []string,
) (dissolve func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	errs := make([]error, len(entities))
	all := repo.times.Load() + int64(len(entities))

	for i, e := range entities {
		req := limiter.Request{Entity: e, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 100)}
		group.Go(func() { _, errs[i] = lim.Wait(ctx, req) })
	}

	for repo.times.Load() < all && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}

	return func() error {
		cancel()
		group.Wait()
		for _, err := range errs {
			// A waiter that was served or failed did not stay until the end.
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("a waiter returned: %w", err)
			}
		}
		return nil
	}, ctx.Err()
}

// leavingLines times how long a short and a long line of waiters take to
// leave. The cost of each waiter should not depend on the length.
func leavingLines(ctx context.Context, cfg config, r *report) error {
	repo := &callCounter{Repository: memory.New(nil)}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}

	if err := lim.SetSystemDefaults(ctx, limiter.PerDay("rpm", 100)); err != nil {
		return err
	}

	const entity = "line"
	if err := exhaust(ctx, lim, []string{entity}); err != nil {
		return err
	}

	few, many := cfg.waiters[1], cfg.waiters[2]
	times := map[int]series{}
	for range cfg.rounds {
		for _, n := range []int{few, many} {
			dissolve, err := startWaiters(ctx, lim, repo, slices.Repeat([]string{entity}, n))
			if err != nil {
				return err
			}

			begin := time.Now()
			if err := dissolve(); err != nil {
				return err
			}
			times[n] = append(times[n], float64(time.Since(begin).Nanoseconds())/float64(n))
		}
	}

	ratio := times[many].over(times[few])
	r.atMost(3, ratio, "wait: time for one of %d waiters of a line to leave / one of %d", many, few)
	return r.table([]string{"waiters of a line that leave", "us each", "it / the shorter"}, [][]string{
		{strconv.Itoa(few), times[few].micros(), ""},
		{strconv.Itoa(many), times[many].micros(), ratio.ratio()},
	})
}
