package dynamo

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Buckets are those of an entity, a resource, both, or all.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) {
		if err := r.requireActive(ctx); err != nil {
			yield(limiter.Bucket{}, err)
			return
		}
		for items, err := range r.bucketPages(ctx, of) {
			views, failed := r.views(ctx, now.UnixMilli(), items)
			if err == nil {
				err = failed
			}
			for _, v := range views {
				if !yield(v, nil) {
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

// bucketPages are the items of buckets, some at a time, in the order they are
// to be listed.
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
		return inBatches(r.query(ctx, r.ns, within(entityPK(r.ns, of.Entity), bucketSKPrefix)), maxGets)
	case of.Resource != "":
		return inBatches(r.query(ctx, r.ns, indexed(indexResource, resourcePK(r.ns, of.Resource), bucketGSIPrefix)), maxGets)
	}
	return r.allBuckets(ctx)
}

// allBuckets are the items of all buckets, by resource, then entity. Their keys
// are read at once, and the items as they are asked for.
func (r *Repository) allBuckets(ctx context.Context) iter.Seq2[[]item, error] {
	return func(yield func([]item, error) bool) {
		var keys []key
		for it, err := range r.query(ctx, r.ns, indexed(indexNamespace, r.ns, entityPKPrefix(r.ns))) {
			if err != nil {
				yield(nil, err)
				return
			}
			if k := it.key(); strings.HasPrefix(k.sk, bucketSKPrefix) {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.sk, b.sk), cmp.Compare(a.pk, b.pk)) })
		for batch := range slices.Chunk(keys, maxGets) {
			found, err := r.getAll(ctx, batch)
			var items []item
			for _, k := range batch {
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

// views are buckets as the next charge would find them. Those that are gone are
// not shown.
func (r *Repository) views(ctx context.Context, now int64, items []item) ([]limiter.Bucket, error) {
	payers, err := r.sightings(ctx, now, items)
	if err != nil {
		return nil, err
	}
	var keys []factKey
	for _, p := range payers {
		for _, s := range limiter.Precedence(p.entity, p.resource()) {
			if k := r.configFact(s); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	facts, err := r.facts(ctx, now, keys...)
	if err != nil {
		return nil, err
	}
	var views []limiter.Bucket
	for _, p := range payers {
		if v, ok := p.view(now, keys, facts); ok {
			views = append(views, v)
		}
	}
	return views, nil
}

// sightings returns the buckets in items that were read. One that this process has
// seen at a later refill time is read again: an index lags behind its table, and
// a charge may have overtaken the listing. What accrued until that time would be
// missing.
func (r *Repository) sightings(ctx context.Context, now int64, items []item) ([]*payer, error) {
	payers := make([]*payer, 0, len(items))
	var late []key
	for _, it := range items {
		img, err := decodeImage(it)
		if err != nil {
			return nil, err
		}
		if img == nil {
			continue
		}
		p := &payer{repo: r, entity: it.text(attrEntity), key: it.key()}
		p.known = r.images.get(p.key, moment{r.clock(), now})
		if img.refill < p.known.seen {
			late = append(late, p.key)
		} else {
			p.known.image, p.known.seen = img, img.refill
		}
		payers = append(payers, p)
	}
	found, err := r.getAll(ctx, late)
	if err != nil {
		return nil, err
	}
	for _, p := range payers {
		if !slices.Contains(late, p.key) {
			continue
		}
		img, err := decodeImage(found[p.key])
		if err != nil {
			return nil, err
		}
		p.sees(img)
	}
	return slices.DeleteFunc(payers, func(p *payer) bool { return p.known.image == nil }), nil
}

func (p *payer) resource() string { return strings.TrimPrefix(p.key.sk, bucketSKPrefix) }

// view is the bucket under the limits in force, or under its own where none
// are, unless it is gone.
func (p *payer) view(now int64, keys []factKey, facts []*fact) (limiter.Bucket, bool) {
	img := p.known.image
	if img.gone(max(img.refill, p.known.seen), now) {
		return limiter.Bucket{}, false
	}
	resource := p.resource()
	limits, source := img.limits(), limiter.Scope{}
	if p.known.account != nil {
		source = p.known.account.Source
	}
	for _, s := range limiter.Precedence(p.entity, resource) {
		f := facts[slices.Index(keys, p.repo.configFact(s))]
		if len(f.config.Limits) > 0 {
			limits, source = f.config.Limits, s
			break
		}
	}
	p.use(limits, resource, source)
	p.decide(now)
	return p.plan.view, true
}

// syncBucket makes the bucket of an entity and resource follow limits that were
// just stored for both, or removed: Python clients know only what the bucket
// says. Everybody else finds out with the next charge.
func (r *Repository) syncBucket(ctx context.Context, at time.Time, s limiter.Scope) error {
	charge := limiter.Charge{Entity: s.Entity, Resource: s.Resource}
	now := at.UnixMilli()
	p, err := r.payer(ctx, now, s.Entity, &charge, 0, true)
	if err != nil || !p.mends(now) {
		return err
	}
	if err := p.refresh(ctx, now, &charge); err != nil {
		return err
	}
	if p.mends(now) && p.fresh {
		p.repair(ctx, now, &charge)
	}
	return nil
}
