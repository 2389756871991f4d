package dashboard

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// pagerOf returns the pages of a store, or pages made from its list of buckets.
func pagerOf(repo limiter.Repository) limiter.BucketPager {
	if pager, ok := limiter.Optional[limiter.BucketPager](repo); ok {
		return pager
	}
	return listPager{repo}
}

// listPager makes pages from the list of all buckets. Each page reads the whole
// list, and keeps only its own part.
type listPager struct{ repo limiter.Repository }

// BucketPage returns the next buckets, by entity, then resource.
func (p listPager) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	after, err := parseCursor(q.After)
	if err != nil {
		return limiter.BucketPage{}, err
	}

	const usual, most = 100, 1000
	size := min(cmp.Or(max(q.Max, 0), usual), most)

	var page limiter.BucketPage
	first := &bucketHeap{less: func(a, b limiter.Bucket) bool { return compareBuckets(a, b) > 0 }}

	for b, err := range p.repo.Buckets(ctx, now, limiter.Scope{}) {
		if err != nil {
			return limiter.BucketPage{}, err
		}
		page.Scanned++
		if !strings.HasPrefix(b.Account.Entity, q.Prefix) || after != nil && compareBuckets(b, *after) <= 0 {
			continue
		}

		// One bucket more than the page holds shows that there is a next page.
		first.keep(b, size+1)
	}

	page.Buckets = first.sorted()
	if len(page.Buckets) > size {
		page.Buckets = page.Buckets[:size]
		page.Next = cursorOf(page.Buckets[size-1])
	}

	return page, nil
}

// BucketsAt returns the bucket of each key.
func (p listPager) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	all := make([]limiter.Bucket, len(keys))
	for i, key := range keys {
		for b, err := range p.repo.Buckets(ctx, now, key) {
			if err != nil {
				return nil, err
			}
			all[i] = b
		}
	}
	return all, nil
}

func compareBuckets(a, b limiter.Bucket) int {
	return cmp.Or(cmp.Compare(a.Account.Entity, b.Account.Entity), cmp.Compare(a.Account.Resource, b.Account.Resource))
}

func cursorOf(b limiter.Bucket) string {
	return base64.RawURLEncoding.EncodeToString([]byte(b.Account.Entity + "\x00" + b.Account.Resource))
}

// parseCursor returns the bucket of a cursor, nil for "".
func parseCursor(text string) (*limiter.Bucket, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the start
	}

	raw, err := base64.RawURLEncoding.DecodeString(text)
	entity, resource, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return nil, &limiter.InvalidError{
			Field: "after", Value: web.Clip(text), Reason: "must be the position of an earlier page",
		}
	}

	return &limiter.Bucket{Account: &limiter.Account{Entity: entity, Resource: resource}}, nil
}

// bucketHeap keeps the first buckets of an order. Its root is the last one kept,
// which makes room for a bucket before it.
type bucketHeap struct {
	all []limiter.Bucket
	// less reports whether a comes after b.
	less func(a, b limiter.Bucket) bool
}

// keep adds a bucket, and drops the last one if there are more than most.
func (h *bucketHeap) keep(b limiter.Bucket, most int) {
	if len(h.all) < most {
		heap.Push(h, b)
		return
	}

	if h.less(h.all[0], b) {
		h.all[0] = b
		heap.Fix(h, 0)
	}
}

// sorted empties the heap and returns its buckets in order.
func (h *bucketHeap) sorted() []limiter.Bucket {
	out := make([]limiter.Bucket, len(h.all))

	// The root of the heap is the last bucket of the order, so it goes to the
	// end.
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = heap.Pop(h).(limiter.Bucket)
	}

	return out
}

// Len returns the number of buckets.
func (h *bucketHeap) Len() int { return len(h.all) }

// Less orders the buckets, last first.
func (h *bucketHeap) Less(i, j int) bool { return h.less(h.all[i], h.all[j]) }

// Swap swaps two buckets.
func (h *bucketHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }

// Push adds a bucket.
//
//nolint:errcheck // heap.Push passes what keep gave
func (h *bucketHeap) Push(b any) { h.all = append(h.all, b.(limiter.Bucket)) }

// Pop removes the last bucket of the slice.
func (h *bucketHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}
