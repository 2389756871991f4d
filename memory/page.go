package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// BucketPage returns the next buckets by entity, then resource. It looks at every
// bucket of the namespace, locks one shard at a time, and keeps no more keys than
// two pages have.
func (r *Repository) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	if err := r.requireActive(ctx); err != nil {
		return limiter.BucketPage{}, err
	}

	after, size, err := rules.StartPage(q)
	if err != nil {
		return limiter.BucketPage{}, err
	}

	// The key after the page says whether there is a next one.
	var page limiter.BucketPage
	keys := r.firstKeys(now.UnixMilli(), q.Prefix, after, size+1)
	if len(keys) > size {
		keys = keys[:size]
		page.Next = rules.Position(keys[size-1]).Cursor()
	}

	for _, b := range r.bucketsAt(now.UnixMilli(), keys) {
		// The bucket may have been removed since its key was read: the shards
		// are not locked in between.
		if b.Account != nil {
			page.Buckets = append(page.Buckets, b)
		}
	}

	page.Scanned = len(keys)
	return page, nil
}

// BucketsAt returns the buckets at keys.
func (r *Repository) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	if err := r.requireActive(ctx); err != nil {
		return nil, err
	}
	return r.bucketsAt(now.UnixMilli(), keys), nil
}

// firstKeys returns the first n keys after a position, in order.
func (n *namespace) firstKeys(now int64, prefix string, after rules.Position, count int) []limiter.Scope {
	first := firstKeys{count: count}
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		for e := range s.buckets.all() {
			key := keyOf(e)
			// The cheap checks come first: most buckets of a large namespace
			// are on other pages.
			if !strings.HasPrefix(key.Entity, prefix) || after.Passed(key.Entity, key.Resource) || !first.wants(key) {
				continue
			}
			// A bucket that has expired counts as absent, although no sweep has
			// removed it yet.
			if local, _ := n.machine.Local(&e.Bucket, now); !e.Gone(local) {
				first.add(key)
			}
		}
		s.mu.Unlock()
	}

	first.trim()
	return first.keys
}

// firstKeys collects the first count of many keys.
type firstKeys struct {
	keys  []limiter.Scope
	count int
	full  bool // the key at count-1 is the last of the first ones so far
}

func compareKeys(a, b limiter.Scope) int {
	return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource))
}

// wants reports whether a key can be one of the first.
func (f *firstKeys) wants(key limiter.Scope) bool {
	return !f.full || compareKeys(key, f.keys[f.count-1]) < 0
}

func (f *firstKeys) add(key limiter.Scope) {
	// Sorting once for a whole page of new keys costs less than keeping them in
	// order.
	if f.keys = append(f.keys, key); len(f.keys) == 2*f.count {
		f.trim()
	}
}

// trim sorts the keys and drops those that are not among the first.
func (f *firstKeys) trim() {
	slices.SortFunc(f.keys, compareKeys)
	if len(f.keys) >= f.count {
		f.keys, f.full = f.keys[:f.count], true
	}
}

func (n *namespace) bucketsAt(now int64, keys []limiter.Scope) []limiter.Bucket {
	found := make([]limiter.Bucket, len(keys))
	n.mu.RLock()
	defer n.mu.RUnlock()

	for i, key := range keys {
		s := n.shard(key.Entity)

		s.mu.Lock()
		if e := s.get(key); e != nil {
			if local, back := n.machine.Local(&e.Bucket, now); !e.Gone(local) {
				found[i] = n.view(local, back, key, e)
			}
		}
		s.mu.Unlock()
	}
	return found
}
