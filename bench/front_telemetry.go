package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// Names of the repositories in the table.
const (
	nameBare     = "memory"
	nameObserved = "memory behind telemetry"
)

// frontTelemetry compares decisions on memory with the same ones behind telemetry
// without an SDK.
func frontTelemetry(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	observed, err := telemetry.New(repo, nil)
	if err != nil {
		return err
	}

	names, runs := []string{nameBare, nameObserved}, map[string]func(int) error{}
	var contenders []contender[string]
	for i, store := range []limiter.Repository{repo, observed} {
		run, err := decisions(ctx, store)
		if err != nil {
			return err
		}
		runs[names[i]] = run
		contenders = append(contenders, contender[string]{names[i], run})
	}

	times, err := measure(ctx, cfg, contenders)
	if err != nil {
		return err
	}

	// Both times of a difference are from one round, in which the machine was
	// as busy for both.
	added := make(series, len(times[nameBare]))
	for i := range added {
		added[i] = (times[nameObserved][i] - times[nameBare][i]) / 1000
	}

	const operations = 2000
	objects := map[string]float64{}
	for _, name := range names {
		got, err := allocations(runs[name], operations)
		if err != nil {
			return err
		}
		objects[name] = got.objects
	}

	// Other goroutines allocate now and then, so the difference is rounded.
	more := math.Round(10*(objects[nameObserved]-objects[nameBare])) / 10
	r.atMost(1, added, "front: microseconds that telemetry without an SDK adds to a decision")
	r.atMost(3, series{more}, "front: allocations that telemetry without an SDK adds to a decision")

	return r.table([]string{"decision on", "ns", "us more", "allocations"}, [][]string{
		{nameBare, times[nameBare].nanos(), "", fmt.Sprintf("%.1f", objects[nameBare])},
		{nameObserved, times[nameObserved].nanos(), added.ratio(), fmt.Sprintf("%.1f", objects[nameObserved])},
	})
}

// decisions returns a function that acquires two limits and commits n times.
func decisions(ctx context.Context, repo limiter.Repository) (func(n int) error, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	if err := lim.SetSystemDefaults(ctx, frontLimits()...); err != nil {
		return nil, err
	}

	request := limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)}
	return func(n int) error {
		for range n {
			lease, err := lim.Acquire(ctx, request)
			if err != nil {
				return err
			}
			if err := lease.Commit(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
