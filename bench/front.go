package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// frontSection measures what stands in front of traffic: packages in this process,
// then the program. Each part prints a table and adds its targets.
func frontSection(ctx context.Context, cfg config, r *report) (err error) {
	if err := errors.Join(frontHandler(ctx, cfg, r), frontTelemetry(ctx, cfg, r)); err != nil {
		return err
	}

	built, err := buildProgram(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, built.remove()) }()

	for _, part := range []func(context.Context, config, *report, *program) error{frontEnvoy, frontServe, frontProxy} {
		if err := part(ctx, cfg, r, built); err != nil {
			return err
		}
	}
	return nil
}

// frontLimits returns two limits that never refuse.
func frontLimits() []limiter.Limit {
	return []limiter.Limit{
		limiter.Custom("rpm", plenty, 1_000_000, time.Minute),
		limiter.Custom("tpm", plenty, 1_000_000, time.Minute),
	}
}

func frontRequest() limiter.Request {
	return limiter.Request{Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)}
}

// Names of the contenders in tables.
const (
	nameEmpty    = "empty handler"
	nameLimited  = "behind httplimit"
	nameBare     = "memory"
	nameObserved = "memory behind telemetry"
)

// frontHandler compares an empty handler with the same one behind httplimit on
// memory. It calls both without a network, which would hide the difference.
func frontHandler(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	lim, err := frontLimiter(ctx, repo)
	if err != nil {
		return err
	}

	empty := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	limited := httplimit.New(lim, func(*http.Request) (limiter.Request, error) { return frontRequest(), nil }, nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	if err != nil {
		return err
	}

	w := &discard{header: http.Header{}}
	serving := func(handler http.Handler) func(context.Context) error {
		return func(context.Context) error {
			clear(w.header) // a call begins without headers, as in a server
			handler.ServeHTTP(w, request)
			return nil
		}
	}

	without, with := caller{nameEmpty, 1}, caller{nameLimited, 1}
	all, err := rounds(ctx, cfg, []probe{
		inProcess(ctx, without, serving(empty)), inProcess(ctx, with, serving(limited.Handler(empty))),
	})
	if err != nil {
		return err
	}

	added := all.added(with, without)
	r.atMost(3, added, "front: microseconds that httplimit on memory adds to an empty handler, p50")
	return r.table([]string{"handler", "ns p50", "us more"}, [][]string{
		{nameEmpty, all.of(without, p50).nanos(), ""},
		{nameLimited, all.of(with, p50).nanos(), added.ratio()},
	})
}

// added returns the microseconds by which p50 of one contender exceeds another's.
// Both times of a difference are from one round, in which the machine was as busy
// for both.
func (m measured) added(a, b caller) series {
	more := m.of(a, p50)
	for i, less := range m.of(b, p50) {
		more[i] = (more[i] - less) / 1000
	}
	return more
}

func frontLimiter(ctx context.Context, repo limiter.Repository) (*limiter.RateLimiter, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	err = lim.SetSystemDefaults(ctx, frontLimits()...)
	return lim, err
}

// discard is a response writer that drops the answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

// frontTelemetry compares decisions on memory with the same ones behind telemetry
// without an SDK.
func frontTelemetry(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	observed, err := telemetry.New(repo, nil)
	if err != nil {
		return err
	}

	without, with := caller{nameBare, 1}, caller{nameObserved, 1}
	ids := []caller{without, with}
	var probes []probe
	for i, store := range []limiter.Repository{repo, observed} {
		lim, err := frontLimiter(ctx, store)
		if err != nil {
			return err
		}

		request := frontRequest()
		probes = append(probes, inProcess(ctx, ids[i], func(ctx context.Context) error {
			lease, err := lim.Acquire(ctx, request)
			if err != nil {
				return err
			}
			return lease.Commit(ctx)
		}))
	}

	all, err := rounds(ctx, cfg, probes)
	if err != nil {
		return err
	}

	// Other goroutines allocate now and then, so the difference is rounded.
	few, many := all.of(without, objects).median(), all.of(with, objects).median()
	more, added := math.Round(10*(many-few))/10, all.added(with, without)
	r.atMost(1, added, "front: microseconds that telemetry without an SDK adds to a decision")
	r.atMost(3, series{more}, "front: allocations that telemetry without an SDK adds to a decision")

	return r.table([]string{"decision on", "ns", "us more", "allocations"}, [][]string{
		{nameBare, all.of(without, p50).nanos(), "", fmt.Sprintf("%.1f", few)},
		{nameObserved, all.of(with, p50).nanos(), added.ratio(), fmt.Sprintf("%.1f", many)},
	})
}
