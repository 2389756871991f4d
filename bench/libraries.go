package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// library is a limiter with a bucket for each of its keys.
type library interface {
	take(worker, n int) error // makes n operations, which are all admitted
	close() error
}

// ours acquires and commits. It makes the request once, and only changes its
// entity, like the key of the other libraries.
type ours struct {
	repo    limiter.Repository
	lim     *limiter.RateLimiter
	request limiter.Request
	pickers []picker
}

// plenty is a capacity that is never used up. It also keeps buckets from
// expiring, since their lifetime is a multiple of their fill time.
const plenty = 1e15

func newOurs(ctx context.Context, repo limiter.Repository, keys *keyset, workers, limits int) (*ours, error) {
	lim, err := limiter.New(repo, nil)
	if err != nil {
		return nil, err
	}

	o := &ours{repo: repo, lim: lim, pickers: keys.pickers(workers), request: limiter.Request{Resource: "gpt-4"}}
	var stored []limiter.Limit
	for i := range limits {
		name := fmt.Sprintf("limit-%02d", i)
		stored = append(stored, limiter.Custom(name, plenty, 1_000_000, time.Minute))
		o.request.Consume = o.request.Consume.And(name, int64(1+i))
	}

	if err := lim.SetSystemDefaults(ctx, stored...); err != nil {
		return nil, err
	}

	// A call that creates a bucket costs more, so all buckets exist before the
	// first sample.
	for _, key := range keys.keys {
		o.request.Entity = key
		if err := o.acquire(ctx, &o.request); err != nil {
			return nil, err
		}
	}

	return o, nil
}

func newOursInMemory(ctx context.Context, keys *keyset, workers, limits int) (*ours, error) {
	return newOurs(ctx, memory.New(nil), keys, workers, limits)
}

func (o *ours) acquire(ctx context.Context, req *limiter.Request) error {
	lease, err := o.lim.Acquire(ctx, *req)
	if err != nil {
		return err
	}
	return lease.Commit(ctx)
}

func (o *ours) take(worker, n int) error {
	ctx, req, keys := context.Background(), o.request, o.pickers[worker]
	for range n {
		req.Entity = keys.next()
		if err := o.acquire(ctx, &req); err != nil {
			return err
		}
	}

	o.pickers[worker] = keys
	return nil
}

func (o *ours) close() error { return o.repo.Close() }

var errRefused = errors.New("a request was refused; the limits have to admit all of them")

// rival is another limiter in memory, with one limit for each key.
type rival struct {
	allow   func(ctx context.Context, key string) (bool, error)
	end     func(context.Context) error // nil for none
	pickers []picker
}

// newRival prepares all keys of a limiter: a key that is new costs more, so all of
// them exist before the first sample.
func newRival(ctx context.Context, keys *keyset, workers int, r rival) (*rival, error) {
	for _, key := range keys.keys {
		if ok, err := r.allow(ctx, key); err != nil || !ok {
			return nil, errors.Join(errRefused, err)
		}
	}
	r.pickers = keys.pickers(workers)
	return &r, nil
}

// newGoLimiter returns sethvargo/go-limiter on its memory store. Its interval is
// longer than any run: at the end of an interval the store loses its balance, and
// refills too little for large limits.
func newGoLimiter(ctx context.Context, keys *keyset, workers int) (*rival, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: plenty, Interval: 24 * time.Hour})
	if err != nil {
		return nil, err
	}

	allow := func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}
	return newRival(ctx, keys, workers, rival{allow: allow, end: store.Close})
}

// newThrottled returns throttled/throttled on its memory store.
func newThrottled(ctx context.Context, keys *keyset, workers int) (*rival, error) {
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
	allow := func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
	return newRival(ctx, keys, workers, rival{allow: allow})
}

func (r *rival) take(worker, n int) error {
	ctx, keys := context.Background(), r.pickers[worker]
	for range n {
		ok, err := r.allow(ctx, keys.next())
		if err != nil {
			return err
		}
		if !ok {
			return errRefused
		}
	}

	r.pickers[worker] = keys
	return nil
}

func (r *rival) close() error {
	if r.end == nil {
		return nil
	}
	return r.end(context.Background())
}
