package dynamo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A page of buckets finds entities in the index of the namespace, which sorts by
// entity and holds keys only, and then queries the partition of each for its
// buckets and limits. It needs no key of the usage of an entity: the next query of
// the index begins after the entity. The reads may lag behind the table a little,
// which halves their price.

// BucketPage returns the next buckets by entity, then resource. It sends a bounded
// number of requests, and may lag behind the table by about a second.
func (r *Repository) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	// The clock guard compares now with the machine's clock, so nothing may
	// wait before that.
	arrived := r.arrive(now)
	var page limiter.BucketPage
	if err := r.requireNamespace(ctx); err != nil {
		return page, err
	}

	after, size, err := rules.StartPage(q)
	if err != nil {
		return page, err
	}

	at := r.timeOf(ctx, arrived)
	if err := r.requireActive(ctx); err != nil {
		return page, err
	}

	// If a change of limits evicts levels during the walk, put keeps nothing
	// that was read before it.
	evictions := r.listed.evictionCount()
	w := pageWalk{
		repo: r, prefix: q.Prefix, after: after, size: min(size, maxPageBuckets), known: levels{},
		until: time.Now().Add(pagePatience),
	}

	if err := w.run(ctx); err != nil {
		return page, err
	}

	r.listed.put(r.moment(at), w.known, evictions)
	if !w.done {
		page.Next = w.after.Cursor()
	}

	page.Scanned = len(w.items)
	page.Buckets, page.Damaged, err = r.soundBuckets(ctx, at, w.items, w.known)
	return page, err
}

// soundBuckets does what currentBuckets does, and returns the keys of buckets that
// are damaged, or whose limits are. It finds them by halves.
func (r *Repository) soundBuckets(
	ctx context.Context, now int64, items []item, known levels,
) (buckets []limiter.Bucket, damaged []limiter.Scope, err error) {
	buckets, err = r.currentBuckets(ctx, now, items, known)
	if !errors.As(err, new(*limiter.CorruptError)) {
		return buckets, nil, err
	}

	if len(items) == 1 {
		p := r.listedPayer(items[0])
		return nil, []limiter.Scope{{Entity: p.entity, Resource: p.resource()}}, nil
	}

	buckets, damaged, err = r.soundBuckets(ctx, now, items[:len(items)/2], known)
	if err != nil {
		return nil, nil, err
	}
	more, others, err := r.soundBuckets(ctx, now, items[len(items)/2:], known)
	return append(buckets, more...), append(damaged, others...), err
}

// BucketsAt returns the buckets at keys. They may lag behind the table by about a
// second, and limits that another process has set by 2 seconds, or by up to 10 if
// a read budget is tight.
func (r *Repository) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	arrived := r.arrive(now)
	if err := r.requireNamespace(ctx); err != nil {
		return nil, err
	}

	at := r.timeOf(ctx, arrived)
	if err := r.requireActive(ctx); err != nil {
		return nil, err
	}

	items, err := r.bucketItems(ctx, keys)
	if err != nil {
		return nil, err
	}

	buckets, err := r.currentBuckets(ctx, at, items, levels{})
	if err != nil {
		return nil, err
	}

	byKey := map[limiter.Scope]limiter.Bucket{}
	for _, b := range buckets {
		byKey[limiter.Scope{Entity: b.Account.Entity, Resource: b.Account.Resource}] = b
	}

	found := make([]limiter.Bucket, len(keys))
	for i, k := range keys {
		found[i] = byKey[k]
		found[i].Tokens = slices.Clone(found[i].Tokens) // a key may repeat
	}
	return found, nil
}

// bucketItems returns the items of the buckets at keys, each once. It leaves out
// buckets that do not exist.
func (r *Repository) bucketItems(ctx context.Context, keys []limiter.Scope) (items []item, err error) {
	var wanted []key
	seen := map[key]bool{}
	for _, s := range keys {
		// A key that no item can have would fail the whole batch.
		if k := bucketKey(r.ns, s.Entity, s.Resource); !seen[k] && s.Entity != "" && s.Resource != "" && k.possible() {
			seen[k] = true
			wanted = append(wanted, k)
		}
	}

	found, err := r.getLagging(ctx, wanted)
	for _, k := range wanted {
		if it := found[k]; it != nil {
			items = append(items, it)
		}
	}
	return items, err
}
