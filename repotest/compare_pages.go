package repotest

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// hasPages reports whether a repository is a limiter.BucketPager.
func hasPages(repo limiter.Repository) bool {
	_, ok := limiter.Optional[limiter.BucketPager](repo)
	return ok
}

// pagerOf returns a repository for which hasPages reports true.
func pagerOf(repo limiter.Repository) limiter.BucketPager {
	pager, _ := limiter.Optional[limiter.BucketPager](repo)
	return pager
}

// BucketPage calls the repository.
func (w *recorder) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	pager, ok := limiter.Optional[limiter.BucketPager](w.Repository)
	if !ok {
		return limiter.BucketPage{}, errors.ErrUnsupported
	}
	return pager.BucketPage(ctx, now, q)
}

// BucketsAt calls the repository.
func (w *recorder) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	pager, ok := limiter.Optional[limiter.BucketPager](w.Repository)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return pager.BucketsAt(ctx, now, keys)
}

// readPages compares all pages of a random query, and the buckets at the keys that
// they show, in another order and with one that does not exist. Cursors and the
// lengths of pages may differ.
func (h *history) readPages() {
	if !h.pages {
		return
	}
	now, entity := h.clock(), h.scope().Entity

	q := limiter.BucketQuery{Prefix: entity[:h.rng.IntN(len(entity)+1)], Max: h.rng.IntN(4)}
	h.note("%s BucketPage %+v", stamp(now), q)

	var keys []limiter.Scope
	_, err := both(h, "BucketPage", func(_ int, repo limiter.Repository) ([]balance, error) {
		buckets, err := readPages(h.ctx, pagerOf(repo), now, q)
		// Both lists agree, so the keys of the second side serve both.
		keys = nil

		for _, b := range buckets {
			keys = append(keys, limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource})
		}
		return h.balancesOf(buckets), err
	})
	if err != nil {
		return
	}

	keys = append(keys, limiter.Scope{Entity: "missing", Resource: model})
	h.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })

	_, _ = both(h, "BucketsAt", func(_ int, repo limiter.Repository) ([]balance, error) {
		buckets, err := pagerOf(repo).BucketsAt(h.ctx, now, keys)
		return h.balancesOf(buckets), err
	})
}
