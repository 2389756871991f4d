package dynamo

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

const (
	// maxPageBuckets is how many buckets a page has at most: each may need a query.
	maxPageBuckets = 250
	// maxPageQueries is how many queries of the index a page sends.
	maxPageQueries = 16
	// manyKeys and fewKeys are the keys that a query of the index reads: few while
	// entities have many items. Both cost little, and fewer would cost as much.
	manyKeys, fewKeys = 100, 25
	// pagePatience is how long a page waits for a read budget. Then it ends with the
	// entities that are paid, at least one.
	pagePatience = 2 * time.Second
	// partitionItems is how many buckets and configs of an entity one query reads.
	partitionItems = 24
)

// pageWalk collects the items of a page.
type pageWalk struct {
	repo   *Repository
	prefix string
	after  rules.Position // everything up to it is in items
	size   int
	items  []item    // of buckets, in order
	known  levels    // of the entities of items
	done   bool      // nothing follows after
	until  time.Time // pagePatience is over
	late   bool      // a read was not paid in time, and the page ends
}

// listedEntity is an entity in the index.
type listedEntity struct {
	id      string
	buckets int // as far as the index was read
}

// run collects items until the page is full, has sent its requests, or is the
// last.
func (w *pageWalk) run(ctx context.Context) error {
	if w.after.Resource != "" { // the last page ended within an entity
		if err := w.readEntities(ctx, []listedEntity{{id: w.after.Entity, buckets: 1}}); err != nil {
			return err
		}
	}

	keys := int32(manyKeys)
	if w.size <= fewKeys {
		keys = fewKeys
	}

	begin := w.after
	for range maxPageQueries {
		if w.done || w.late || len(w.items) >= w.size {
			return nil
		}
		// A page that has moved on may end early. If it has not, its cursor
		// would be the old one.
		if hasBudget(ctx) && w.after != begin && time.Now().After(w.until) {
			return nil
		}

		entities, last, err := w.queryIndex(ctx, keys)
		if err != nil {
			return err
		}

		// Few entities in a reply have many items each, most of them usage, and
		// their further keys say nothing new.
		if keys = manyKeys; len(entities) <= manyKeys/fewKeys {
			keys = fewKeys
		}

		if err := w.readEntities(ctx, entities); err != nil {
			return err
		}
		// The last entity may have more buckets than fit the page, which then
		// is not the last.
		w.done = last && (len(entities) == 0 || w.after == rules.Position{Entity: entities[len(entities)-1].id})
	}
	return nil
}

// queryIndex returns the next entities of the index. The last one may have more
// buckets than were seen. queryIndex reports as last whether no entity follows.
func (w *pageWalk) queryIndex(ctx context.Context, keys int32) (entities []listedEntity, last bool, err error) {
	r := w.repo
	in := queryIndex(indexNamespace, r.ns, entityPK(r.ns, w.prefix))
	if w.after.Entity != "" {
		in.KeyConditionExpression = aws.String("#pk = :pk AND #sk > :sk")
		in.ExpressionAttributeValues[":sk"] = text(entityPK(r.ns, w.after.Entity))
	}

	in.TableName, in.Limit = &r.table, &keys
	out, err := r.api(ctx).Query(ctx, in)
	if err != nil {
		return nil, false, r.explain(err)
	}

	for _, found := range out.Items {
		it := item(found)
		id, ours := strings.CutPrefix(it.text(attrGSI4SK), entityPK(r.ns, ""))
		// The index sorts by entity, so the first other key ends the listing.
		if !ours || !strings.HasPrefix(id, w.prefix) {
			return entities, true, nil
		}

		if len(entities) == 0 || entities[len(entities)-1].id != id {
			entities = append(entities, listedEntity{id: id})
		}

		// Other keys are forged: no client writes an index key that differs.
		if k := it.key(); k.pk == entityPK(r.ns, id) && strings.HasPrefix(k.sk, bucketSKPrefix) {
			entities[len(entities)-1].buckets++
		}
	}

	if last = len(out.LastEvaluatedKey) == 0; !last && len(entities) > 0 {
		// The reply may have ended within this entity.
		entities[len(entities)-1].buckets++
	}
	return entities, last, nil
}

// readEntities adds the buckets of entities, which follow each other in the index,
// until the page is full.
func (w *pageWalk) readEntities(ctx context.Context, entities []listedEntity) error {
	for len(entities) > 0 && len(w.items) < w.size {
		// Only as many partitions are read as the page is expected to need.
		n := 0
		for expected := len(w.items); n < len(entities) && expected < w.size; n++ {
			expected += entities[n].buckets
		}

		read, err := w.readPartitions(ctx, entities[:n])
		if err != nil {
			return err
		}

		for i, p := range read {
			if !w.add(entities[i].id, p) {
				return nil
			}
		}
		if w.late {
			return nil
		}

		entities = entities[n:]
	}
	return nil
}

// add adds the buckets of an entity. It reports whether all of them fit.
func (w *pageWalk) add(entity string, p partition) bool {
	fits := p.buckets[:min(len(p.buckets), w.size-len(w.items))]
	w.items = append(w.items, fits...)
	maps.Copy(w.known, p.known)

	if len(fits) == len(p.buckets) && !p.more {
		w.after = rules.Position{Entity: entity}
		return true
	}

	if len(fits) > 0 {
		resource := strings.TrimPrefix(fits[len(fits)-1].key().sk, bucketSKPrefix)
		w.after = rules.Position{Entity: entity, Resource: resource}
	}
	return false
}

// partition holds what a page reads of an entity.
type partition struct {
	buckets []item
	known   levels // nil if not all of them were read
	more    bool   // buckets follow
}

// readPartitions reads the partitions of entities that have buckets, in parallel.
// If a read is not paid in time, it sets late and returns the partitions before
// it, at least one.
func (w *pageWalk) readPartitions(ctx context.Context, entities []listedEntity) ([]partition, error) {
	read, unpaid := make([]partition, len(entities)), make([]bool, len(entities))

	readOne := func(ctx context.Context, i int) (err error) {
		from := firstBucketSK
		if entities[i].id == w.after.Entity { // and not after all of its buckets
			from += w.after.Resource
		}
		read[i], err = w.repo.readPartition(ctx, entities[i].id, from, w.size)
		return err
	}

	err := inParallel(spendUntil(ctx, w.until), withBuckets(entities), func(ctx context.Context, i int) error {
		err := readOne(ctx, i)
		if unpaid[i] = errors.Is(err, errUnpaid); unpaid[i] {
			return nil
		}
		return err
	})

	first := slices.Index(unpaid, true)
	if err != nil || first < 0 {
		return read, err
	}

	w.late = true
	// Without at least one entity, the page would not advance. This read waits
	// for the budget as long as it takes.
	if first == 0 && len(w.items) == 0 {
		first, err = 1, readOne(ctx, 0)
	}
	return read[:first], err
}

// withBuckets iterates over the indexes of entities that have buckets.
func withBuckets(entities []listedEntity) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i, e := range entities {
			if e.buckets > 0 && !yield(i, nil) {
				return
			}
		}
	}
}

// readPartition reads the buckets of an entity after a sort key, at least count of
// them if there are so many, and its levels if these fit in.
func (r *Repository) readPartition(ctx context.Context, entity, after string, count int) (p partition, err error) {
	in := between(entityPK(r.ns, entity), after, lastConfigSK)
	in.TableName, in.ConsistentRead, in.Limit = &r.table, nil, aws.Int32(partitionItems)

	var configs []item
	for {
		out, err := r.api(ctx).Query(ctx, in)
		if err != nil {
			return p, r.explain(err)
		}
		for _, it := range out.Items {
			// The range includes its start, a bucket that the page before has
			// shown.
			switch k := item(it).key(); {
			case strings.HasPrefix(k.sk, configSKPrefix):
				configs = append(configs, it)
			case k.sk > after:
				p.buckets = append(p.buckets, it)
			}
		}

		if len(out.LastEvaluatedKey) == 0 {
			p.known, err = r.decodeLevels(entity, p.buckets, configs)
			if errors.As(err, new(*limiter.CorruptError)) {
				// The levels are looked up for each bucket instead, which finds
				// the bad one again and reports its buckets as damaged.
				p.known, err = nil, nil
			}
			return p, err
		}

		// Configs come after buckets, so the first config shows that no bucket
		// follows.
		if len(configs) > 0 || len(p.buckets) >= count {
			p.more = len(configs) == 0
			return p, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// decodeLevels returns the levels of an entity that are in force for buckets.
func (r *Repository) decodeLevels(entity string, buckets, configs []item) (levels, error) {
	stored := map[key]item{}
	for _, it := range configs {
		stored[it.key()] = it
	}

	known := levels{}
	decode := func(s limiter.Scope) (err error) {
		k := r.configFact(s)
		known[k], err = k.decode(stored[k.key()])
		return err
	}

	if err := decode(limiter.Scope{Entity: entity}); err != nil {
		return nil, err
	}

	for _, it := range buckets {
		if err := decode(limiter.Scope{
			Entity: entity, Resource: strings.TrimPrefix(it.key().sk, bucketSKPrefix),
		}); err != nil {
			return nil, err
		}
	}
	return known, nil
}
