package escrow

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// BucketPage returns a page of the store, with what this process holds as
// available. It returns errors.ErrUnsupported if the store is no
// limiter.BucketPager.
func (r *Repository) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	store, ok := limiter.Optional[limiter.BucketPager](r.Repository)
	if !ok {
		return limiter.BucketPage{}, errors.ErrUnsupported
	}

	held := r.heldTokens(now)
	page, err := store.BucketPage(ctx, now, q)
	for i := range page.Buckets {
		held.addTo(&page.Buckets[i])
	}
	return page, err
}

// BucketsAt returns the buckets at keys, with what this process holds as
// available. It returns errors.ErrUnsupported if the store is no
// limiter.BucketPager.
func (r *Repository) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	store, ok := limiter.Optional[limiter.BucketPager](r.Repository)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	held := r.heldTokens(now)
	buckets, err := store.BucketsAt(ctx, now, keys)
	for i := range buckets {
		held.addTo(&buckets[i])
	}
	return buckets, err
}

// WithReadBudget returns a view with a read budget that shares the pots. It returns
// nil if the store is no limiter.ReadBudgeter.
func (r *Repository) WithReadBudget(units float64) (limiter.Repository, limiter.ReadMeter) {
	store, ok := limiter.Optional[limiter.ReadBudgeter](r.Repository)
	if !ok {
		return nil, nil
	}

	inside, meter := store.WithReadBudget(units)
	return &Repository{Repository: inside, escrow: r.escrow, pots: r.pots, name: r.name, view: true}, meter
}
