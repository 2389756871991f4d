package main

import (
	"context"
	"errors"
	"math"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledGCRA is throttled/throttled on its memory store without eviction,
// with one limit for each key.
type throttledGCRA struct {
	limiter *throttled.GCRARateLimiterCtx
	pickers []picker
}

func newThrottled(ctx context.Context, keys *keyset, workers int) (*throttledGCRA, error) {
	// A size of 0 disables eviction.
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	const perSecond = 1_000_000_000 // more than any caller can request
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond,
	})
	if err != nil {
		return nil, err
	}

	// Workers that collide at one key retry until they succeed.
	limiter.SetMaxCASAttemptsLimit(math.MaxInt)
	t := &throttledGCRA{limiter, keys.pickers(workers)}

	for _, key := range keys.keys {
		if limited, _, err := limiter.RateLimitCtx(ctx, key, 1); err != nil || limited {
			return nil, errors.Join(errRefused, err)
		}
	}
	return t, nil
}

func (t *throttledGCRA) take(worker, n int) error {
	ctx, keys := context.Background(), t.pickers[worker]
	for range n {
		limited, _, err := t.limiter.RateLimitCtx(ctx, keys.next(), 1)
		if err != nil {
			return err
		}
		if limited {
			return errRefused
		}
	}

	t.pickers[worker] = keys
	return nil
}

func (*throttledGCRA) close() error { return nil }
