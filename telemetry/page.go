package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// BucketPage calls BucketPage of the store. It returns errors.ErrUnsupported if
// the store is no limiter.BucketPager.
func (r *Repository) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	return observe(ctx, r, opBucketPage, func(ctx context.Context) (page limiter.BucketPage, err error) {
		store, ok := limiter.Optional[limiter.BucketPager](r.Repository)
		if !ok {
			return page, errors.ErrUnsupported
		}

		return store.BucketPage(ctx, now, q)
	})
}

// BucketsAt calls BucketsAt of the store. It returns errors.ErrUnsupported if the
// store is no limiter.BucketPager.
func (r *Repository) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	return observe(ctx, r, opBucketsAt, func(ctx context.Context) ([]limiter.Bucket, error) {
		store, ok := limiter.Optional[limiter.BucketPager](r.Repository)
		if !ok {
			return nil, errors.ErrUnsupported
		}

		return store.BucketsAt(ctx, now, keys)
	})
}

// WithReadBudget returns a view with a read budget, observed too. It returns nil if
// the store is no limiter.ReadBudgeter.
func (r *Repository) WithReadBudget(units float64) (limiter.Repository, limiter.ReadMeter) {
	store, ok := limiter.Optional[limiter.ReadBudgeter](r.Repository)
	if !ok {
		return nil, nil
	}

	inside, meter := store.WithReadBudget(units)
	return &Repository{Repository: inside, observer: r.observer, view: true}, meter
}
