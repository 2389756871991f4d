package main

import (
	"context"
	"errors"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

var errRefused = errors.New("a request was refused; the limits have to admit all of them")

// goLimiter is sethvargo/go-limiter on its memory store, with one limit for
// each key.
type goLimiter struct {
	store   golimiter.Store
	pickers []picker
}

// newGoLimiter sets an interval longer than any run. At the end of an interval
// the store loses its balance, and refills too little for large limits.
func newGoLimiter(ctx context.Context, keys *keyset, workers int) (*goLimiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: plenty, Interval: 24 * time.Hour})
	if err != nil {
		return nil, err
	}

	g := &goLimiter{store, keys.pickers(workers)}

	// A key that is new costs more, so all keys exist before the first sample.
	for _, key := range keys.keys {
		if _, _, _, ok, err := store.Take(ctx, key); err != nil || !ok {
			return nil, errors.Join(errRefused, err)
		}
	}
	return g, nil
}

func (g *goLimiter) take(worker, n int) error {
	ctx, keys := context.Background(), g.pickers[worker]
	for range n {
		_, _, _, ok, err := g.store.Take(ctx, keys.next())
		if err != nil {
			return err
		}
		if !ok {
			return errRefused
		}
	}

	g.pickers[worker] = keys
	return nil
}

func (g *goLimiter) close() error { return g.store.Close(context.Background()) }
