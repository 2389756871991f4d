package main

import (
	"context"
	"fmt"
	"time"

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
