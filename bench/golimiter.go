package main

import (
	"context"
	"errors"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

var errRefused = errors.New("a request was refused, which the limits are made to rule out")

// goLimiter is sethvargo/go-limiter on its memory store: one limit for a key.
type goLimiter struct {
	store   golimiter.Store
	pickers []picker
}

// newGoLimiter has an interval longer than any run: at the end of one the store
// forgets how much it holds, and refills too little for large limits.
func newGoLimiter(ctx context.Context, keys *keyset, workers int) (*goLimiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: plenty, Interval: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	g := &goLimiter{store, keys.pickers(workers)}
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
