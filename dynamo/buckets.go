package dynamo

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Buckets iterates over the buckets of an entity, a resource, both, or all.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	// The caller may iterate much later. Its time is compared with the
	// machine's clock when the call arrives, or the machine's own time would
	// look like another clock's.
	arrived := r.arrive(now)

	return func(yield func(limiter.Bucket, error) bool) {
		if err := r.requireNamespace(ctx); err != nil {
			yield(limiter.Bucket{}, err)
			return
		}

		at := r.timeOf(ctx, arrived)
		if err := r.requireActive(ctx); err != nil {
			yield(limiter.Bucket{}, err)
			return
		}

		for items, err := range r.bucketPages(ctx, of) {
			buckets, failed := r.currentBuckets(ctx, at, items, nil)

			// Buckets that were read before an error are listed before it.
			if err == nil {
				err = failed
			}
			for _, b := range buckets {
				if !yield(b, nil) {
					return
				}
			}

			if err != nil {
				yield(limiter.Bucket{}, err)
				return
			}
		}
	}
}

// bucketPages iterates over the items of buckets, in batches and in the order of
// the listing.
func (r *Repository) bucketPages(ctx context.Context, of limiter.Scope) iter.Seq2[[]item, error] {
	switch {
	case of.Entity != "" && of.Resource != "":
		return func(yield func([]item, error) bool) {
			it, err := r.get(ctx, bucketKey(r.ns, of.Entity, of.Resource))
			if it == nil {
				yield(nil, err)
				return
			}
			yield([]item{it}, err)
		}
	case of.Entity != "":
		return inBatches(r.query(ctx, r.ns, queryPrefix(entityPK(r.ns, of.Entity), bucketSKPrefix)), maxGets)
	case of.Resource != "":
		return inBatches(r.query(ctx, r.ns, queryIndex(indexResource, resourcePK(r.ns, of.Resource), bucketGSIPrefix)),
			maxGets)
	}
	return r.allBuckets(ctx)
}

// allBuckets iterates over the items of all buckets, by resource, then entity. It
// reads all keys first, and then the items in batches.
func (r *Repository) allBuckets(ctx context.Context) iter.Seq2[[]item, error] {
	return func(yield func([]item, error) bool) {
		var keys []key
		for it, err := range r.query(ctx, r.ns, queryIndex(indexNamespace, r.ns, entityPKPrefix(r.ns))) {
			if err != nil {
				yield(nil, err)
				return
			}
			if k := it.key(); strings.HasPrefix(k.sk, bucketSKPrefix) {
				keys = append(keys, k)
			}
		}

		// The index is ordered by entity, and the listing by resource first.
		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.sk, b.sk), cmp.Compare(a.pk, b.pk)) })
		for batch := range slices.Chunk(keys, maxGets) {
			found, err := r.getListed(ctx, batch)
			var items []item

			for _, k := range batch {
				// A bucket may have been deleted between the two reads.
				if it := found[k]; it != nil {
					items = append(items, it)
				}
			}

			if !yield(items, err) || err != nil {
				return
			}
		}
	}
}

// levels holds facts about levels of limits.
type levels map[factKey]*fact

// currentBuckets returns buckets as the next charge would find them, without
// expired ones. It looks up the levels that known lacks. If known is not nil,
// these may lag behind the table.
func (r *Repository) currentBuckets(
	ctx context.Context, now int64, items []item, known levels,
) ([]limiter.Bucket, error) {
	payers, err := r.listedPayers(ctx, now, items)
	if err != nil {
		return nil, err
	}

	all, err := r.lookupLevels(ctx, now, payers, known)
	if err != nil {
		return nil, err
	}

	var buckets []limiter.Bucket
	for _, p := range payers {
		if b, ok := p.currentBucket(now, all); ok {
			buckets = append(buckets, b)
		}
	}
	return buckets, nil
}

// lookupLevels returns the levels of payers: the known ones, and the others from
// the cache or the table.
func (r *Repository) lookupLevels(ctx context.Context, now int64, payers []*payer, known levels) (levels, error) {
	all := levels{}

	var keys []factKey
	for _, p := range payers {
		for _, s := range limiter.Precedence(p.entity, p.resource()) {
			k := r.configFact(s)
			if _, met := all[k]; met {
				continue
			}
			if all[k] = known[k]; all[k] == nil {
				keys = append(keys, k)
			}
		}
	}

	if len(keys) == 0 {
		return all, nil
	}

	var facts []*fact
	var err error

	// Pages, and calls with a budget, show what was stored a moment ago. Such
	// reads cost half as much as consistent ones.
	if known != nil || hasBudget(ctx) {
		facts, err = r.laggingLevels(ctx, now, keys)
	} else {
		facts, _, _, err = r.lookupWith(ctx, now, r.cache.life, keys, nil, r.getListed)
	}

	for i := range facts {
		all[keys[i]] = facts[i]
	}
	return all, err
}

// listedPayers returns a payer for each bucket in items. It reads a bucket again
// if this process has seen it with a later refill time, because an index lags
// behind its table, and a charge may have overtaken the listing. The balance
// would lack the refill until that time.
func (r *Repository) listedPayers(ctx context.Context, now int64, items []item) ([]*payer, error) {
	payers := make([]*payer, 0, len(items))

	var stale []key
	for _, it := range items {
		img, err := decodeImage(it)
		if err != nil {
			return nil, err
		}

		// Python's adjustments leave items without a refill time, which are no
		// buckets.
		if img == nil {
			continue
		}

		p := r.listedPayer(it)
		p.cached = r.images.get(p.key, r.moment(now))

		if img.refill < p.cached.maxRefill {
			stale = append(stale, p.key)
		} else {
			p.cached.image, p.cached.maxRefill = img, img.refill
		}

		payers = append(payers, p)
	}

	found, err := r.getListed(ctx, stale)
	if err != nil {
		return nil, err
	}

	for _, p := range payers {
		if !slices.Contains(stale, p.key) {
			continue
		}

		img, err := decodeImage(found[p.key])
		if err != nil {
			return nil, err
		}
		p.observe(img)
	}

	// The second read may have found that the bucket is gone.
	return slices.DeleteFunc(payers, func(p *payer) bool { return p.cached.image == nil }), nil
}

// listedPayer returns the payer of a bucket's item.
func (r *Repository) listedPayer(it item) *payer {
	k := it.key()
	return &payer{repo: r, entity: strings.TrimPrefix(k.pk, entityPKPrefix(r.ns)), key: k}
}

func (p *payer) resource() string { return strings.TrimPrefix(p.key.sk, bucketSKPrefix) }

// currentBucket returns the bucket under the limits in force, or under its stored
// limits if there are none. It returns false if the bucket has expired.
func (p *payer) currentBucket(now int64, all levels) (limiter.Bucket, bool) {
	img := p.cached.image
	if p.cached.expired(now, p.repo.ttl) {
		return limiter.Bucket{}, false
	}

	resource := p.resource()
	limits, source, held := img.limits(), limiter.Scope{}, false

	for _, s := range limiter.Precedence(p.entity, resource) {
		if found := all[p.repo.configFact(s)].config.Limits; len(found) > 0 {
			limits, source, held = found, s, true
			break
		}
	}

	p.setLimits(limits, resource, source)
	p.decide(now)
	seen := p.plan.view

	// No level holds limits, so those of the bucket are not in force.
	if !held {
		seen.Account = rules.WithoutLevel(seen.Account)
	}

	// A client with a slow clock may have written the refill time back. Charges
	// refill from the highest one seen.
	seen.Updated = max(img.refill, p.cached.maxRefill)
	return seen, true
}

// syncBucket updates the bucket of an entity and resource at now, after their
// limits were stored or removed. Go clients would do so with the next charge, but Python
// clients only know the limits in the bucket.
func (r *Repository) syncBucket(ctx context.Context, now int64, s limiter.Scope) error {
	charge := limiter.Charge{Entity: s.Entity, Resource: s.Resource}

	p, err := r.gatherPayer(ctx, now, s.Entity, 0, &charge, 0, true)
	if err == nil {
		err = p.noLimits
	}
	if err != nil || !p.needsRepair(now) {
		return err
	}

	// The repair must rest on records of one moment, no older than the image.
	// Otherwise it could undo a later change of the limits.
	if err := p.refresh(ctx, now, &charge); err != nil {
		return err
	}

	if p.needsRepair(now) && p.fresh {
		p.repair(ctx, now, &charge)
	}
	return nil
}
