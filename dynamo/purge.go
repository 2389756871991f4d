package dynamo

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// PurgeNamespace removes all data of a deleted namespace. If it is interrupted,
// the namespace stays in the state purging, and another call finishes the work.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	if err := r.ready(ctx); err != nil {
		return err
	}

	ctx = withoutTryTimeout(ctx)
	if err := r.beginPurge(ctx, id); err != nil {
		return err
	}

	again := r.clock().Add(r.opts.PurgeWait)
	// Calls that run meanwhile may fill the caches again, so they are emptied
	// before and after.
	r.forgetNamespace(id)
	defer r.forgetNamespace(id)

	p := &purge{store: r.store, ns: id}
	if err := p.run(ctx); err != nil {
		return err
	}

	// A process that found the namespace active may still have a write in flight,
	// which no condition refuses. This second run removes what it left.
	if err := pause.For(ctx, again.Sub(r.clock())); err != nil {
		return err
	}

	if err := p.run(ctx); err != nil {
		return err
	}
	return r.endPurge(ctx, id)
}

// forgetNamespace drops everything cached of a namespace.
func (s *store) forgetNamespace(ns string) {
	inNamespace := func(k factKey) bool { return k.ns == ns }
	s.cache.evictIf(inNamespace)
	s.listed.evictIf(inNamespace)
	s.images.forgetNamespace(ns)
	s.modes.Delete(ns)
	s.seen.forgetNamespace(ns)
}

// beginPurge moves a deleted namespace to the state purging, which is final. The
// write is conditional, so that it fails if another call recovers the namespace.
func (s *store) beginPurge(ctx context.Context, id string) error {
	for try := 0; ; try++ {
		reverse, err := s.get(ctx, namespaceIDKey(id))
		if err != nil {
			return err
		}
		if reverse == nil || id == reservedNamespace {
			return idNotFound(id)
		}

		state := reverse.text(attrStatus)
		if state == statusPurging {
			return nil
		}

		writes := []types.TransactWriteItem{s.changeState(id, state, "SET #status = :new",
			item{":new": text(statusPurging)})}
		// The forward record of an active namespace refers to it, and its data
		// must stay.
		if name := reverse.text(attrNamespaceName); name != "" {
			writes = append(writes, s.nameIsFree(name, id))
		}

		err = s.transact(ctx, writes...)
		if resultOf(err) != refused {
			return s.explain(err)
		}

		if _, named := refusedAt(err, 1); named {
			return fmt.Errorf("namespace ID %q is active: %w", id, limiter.ErrConflict)
		}
		if err := s.next(ctx, try, err); err != nil {
			return err
		}
	}
}

// nameIsFree returns a condition check that name does not refer to id.
func (s *store) nameIsFree(name, id string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.table, Key: namespaceKey(name).at(),
		ConditionExpression:       aws.String("attribute_not_exists(#pk) OR #id <> :id"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#id": attrNamespaceID},
		ExpressionAttributeValues: item{":id": text(id)},
	}}
}

// purge is one run of PurgeNamespace.
type purge struct {
	*store
	ns    string
	items int // removed so far; guarded by purgedMu
}

// run deletes whole partitions, since some of their items are not indexed. The
// index lags, and clients that still take the namespace for active may write, so
// run queries the index until it is empty. The system's partition goes last,
// because it names partitions that the index lacks.
func (p *purge) run(ctx context.Context) error {
	if err := inParallel(ctx, p.managedPartitions(ctx, p.ns), p.deletePartition); err != nil {
		return err
	}

	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}
		found := 0
		err := inParallel(ctx, countInto(p.indexedPartitions(ctx, p.ns), &found), p.deletePartition)
		if err != nil {
			return err
		}
		if found == 0 {
			return p.deletePartition(ctx, systemPK(p.ns))
		}
	}
}

// indexedPartitions iterates over the partitions in the index of a namespace,
// without the system's. The index sorts items by partition.
func (s *store) indexedPartitions(ctx context.Context, ns string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		last := systemPK(ns)
		for it, err := range s.query(ctx, ns, queryIndex(indexNamespace, ns, namespacePrefix(ns))) {
			pk := it.text(attrPK)
			if err == nil && (pk == last || pk == systemPK(ns)) {
				continue
			}

			last = pk
			if !yield(pk, err) || err != nil {
				return
			}
		}
	}
}

// managedPartitions iterates over the partitions that the system's partition
// names, each once. Python's provisioner does not index its items, but lists
// them there.
func (s *store) managedPartitions(ctx context.Context, ns string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		named := map[string]bool{}
		for it, err := range s.query(ctx, ns, queryPartition(systemPK(ns))) {
			if err != nil {
				yield("", err)
				return
			}

			for _, pk := range namedPartitions(ns, it) {
				if named[pk] {
					continue
				}
				named[pk] = true
				if !yield(pk, nil) {
					return
				}
			}
		}
	}
}

func namedPartitions(ns string, it item) (all []string) {
	for _, attr := range []string{attrResources, attrManagedResources} {
		for _, resource := range it.texts(attr) {
			all = append(all, resourcePK(ns, resource))
		}
	}

	for _, entity := range it.texts(attrManagedEntities) {
		all = append(all, entityPK(ns, entity))
	}
	return all
}

// texts returns the strings of a set or a list, or the keys of a map.
func (it item) texts(attr string) (all []string) {
	switch v := it[attr].(type) {
	case *types.AttributeValueMemberSS:
		return v.Value
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			all = append(all, item{attr: e}.text(attr))
		}
	case *types.AttributeValueMemberM:
		return slices.Collect(maps.Keys(v.Value))
	}
	return all
}

// deletePartition deletes every item of a partition, a batch at a time.
func (p *purge) deletePartition(ctx context.Context, pk string) error {
	in := queryPartition(pk)
	in.ProjectionExpression = aws.String("#pk, #sk")
	in.ExpressionAttributeNames = map[string]string{"#pk": attrPK, "#sk": attrSK}

	var batch []key
	for it, err := range p.query(ctx, p.ns, in) {
		if err != nil {
			return err
		}
		if batch = append(batch, it.key()); len(batch) == maxWrites {
			if err := p.remove(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return p.remove(ctx, batch)
}

// remove deletes items and reports the progress.
func (p *purge) remove(ctx context.Context, batch []key) error {
	if err := p.deleteAll(ctx, batch); err != nil || len(batch) == 0 {
		return err
	}

	p.purgedMu.Lock()
	defer p.purgedMu.Unlock()
	if p.items += len(batch); p.opts.Purged != nil {
		p.opts.Purged(p.items)
	}
	return nil
}

// endPurge deletes the reverse record of the namespace.
func (s *store) endPurge(ctx context.Context, id string) error {
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: namespaceIDKey(id).at()}
	purging := new(condition).same(item{attrStatus: text(statusPurging)}, attrStatus)
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = purging.parts()

	_, err := s.api(ctx).DeleteItem(ctx, in)
	if resultOf(err) == refused {
		return nil // another call was faster
	}
	return s.explain(err)
}
