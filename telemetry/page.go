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

// NewReadBudget starts a read budget of the store. It returns nil if the store is no
// limiter.ReadBudgeter.
func (r *Repository) NewReadBudget(
	units float64,
) (spend func(context.Context) context.Context, spent func() (units, rate float64)) {
	store, ok := limiter.Optional[limiter.ReadBudgeter](r.Repository)
	if !ok {
		return nil, nil
	}

	return store.NewReadBudget(units)
}
