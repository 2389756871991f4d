package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// Names of the handlers in the table.
const (
	nameEmpty   = "empty handler"
	nameLimited = "behind httplimit"
)

// frontHandler compares an empty handler with the same one behind httplimit on
// memory. It calls both without a network, which would hide the difference.
func frontHandler(ctx context.Context, cfg config, r *report) (err error) {
	repo := memory.New(nil)
	defer func() { err = errors.Join(err, repo.Close()) }()
	limited, err := limitedHandler(ctx, repo)
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	if err != nil {
		return err
	}

	handlers := map[string]http.Handler{nameEmpty: http.HandlerFunc(empty), nameLimited: limited}
	times := map[string]series{}
	// A call takes a few microseconds, so this many calls last about a sample.
	calls := max(100, int(cfg.sample/(4*time.Microsecond)))

	for range cfg.rounds {
		for _, name := range []string{nameEmpty, nameLimited} {
			if err := ctx.Err(); err != nil {
				return err
			}
			clean()
			times[name] = append(times[name], medianCall(handlers[name], request, calls))
		}
	}

	// Both times of a difference are from one round, in which the machine was
	// as busy for both.
	added := make(series, cfg.rounds)
	for i := range added {
		added[i] = (times[nameLimited][i] - times[nameEmpty][i]) / 1000
	}

	r.atMost(3, added, "front: microseconds that httplimit on memory adds to an empty handler, p50")
	return r.table([]string{"handler", "ns p50", "us more"}, [][]string{
		{nameEmpty, times[nameEmpty].nanos(), ""},
		{nameLimited, times[nameLimited].nanos(), added.ratio()},
	})
}

func empty(http.ResponseWriter, *http.Request) {}

// limitedHandler returns the empty handler behind two limits.
func limitedHandler(ctx context.Context, repo limiter.Repository) (http.Handler, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}
	if err := lim.SetSystemDefaults(ctx, frontLimits()...); err != nil {
		return nil, err
	}

	return httplimit.New(lim, func(*http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500),
		}, nil
	}, nil).Handler(http.HandlerFunc(empty)), nil
}

// medianCall returns the median time of a call in nanoseconds.
func medianCall(handler http.Handler, r *http.Request, calls int) float64 {
	w := &discard{header: http.Header{}}
	took := make([]time.Duration, calls)
	for i := range took {
		// A call begins without headers, as in a server.
		clear(w.header)
		begin := time.Now()
		handler.ServeHTTP(w, r)
		took[i] = time.Since(begin)
	}

	// A median does not move with the few calls that wait for a garbage
	// collection.
	slices.Sort(took)
	return float64(took[len(took)/2])
}

// discard is a response writer that drops the answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}
