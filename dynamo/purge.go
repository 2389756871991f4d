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
)

// PurgeNamespace destroys the data of a deleted namespace. Stopped half-way, it
// leaves the namespace in purging, and another call finishes.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	ctx = patient(ctx)
	if err := r.beginPurge(ctx, id); err != nil {
		return err
	}
	again := r.clock().Add(r.opts.PurgeWait)
	r.forgetAll(id)
	defer r.forgetAll(id)
	p := &purge{store: r.store, ns: id}
	if err := p.run(ctx); err != nil {
		return err
	}
	// A write of a process that had found the namespace active may still be on its
	// way: no condition of it fails. What it leaves is found now, or never.
	if err := sleep(ctx, again.Sub(r.clock())); err != nil {
		return err
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	return r.endPurge(ctx, id)
}

// forgetAll drops what this process remembers of a namespace.
func (s *store) forgetAll(ns string) {
	s.cache.evictIf(func(k factKey) bool { return k.ns == ns })
	s.images.forgetSpace(ns)
	s.modes.Delete(ns)
}

// beginPurge moves a namespace that is deleted to purging, from where there is
// no way back. Conditions keep a recovery from happening in between.
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
		writes := []types.TransactWriteItem{s.changeState(id, state, "SET #status = :new", item{":new": text(statusPurging)})}
		if name := reverse.text(attrNamespaceName); name != "" {
			writes = append(writes, s.nameless(name, id))
		}
		err = s.transact(ctx, writes...)
		if resultOf(err) != refused {
			return s.explain(err)
		}
		if _, named := refusedAt(err, 1); named {
			return fmt.Errorf("namespace id %q is active: %w", id, limiter.ErrConflict)
		}
		if err := s.next(ctx, try, err); err != nil {
			return err
		}
	}
}

// nameless holds while a name does not lead to an ID.
func (s *store) nameless(name, id string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.table, Key: namespaceKey(name).at(),
		ConditionExpression:       aws.String("attribute_not_exists(#pk) OR #id <> :id"),
		ExpressionAttributeNames:  map[string]string{"#pk": attrPK, "#id": attrNamespaceID},
		ExpressionAttributeValues: item{":id": text(id)},
	}}
}

// purge is the removal of a namespace's data under way.
type purge struct {
	*store
	ns    string
	items int // removed so far; guarded by telling
}

// run deletes whole partitions, since not everything in them is indexed. The
// index lags, and a client that has not noticed yet may still write: it is
// asked until it names nothing more. The system's partition goes last, because
// it leads to partitions that the index does not know.
func (p *purge) run(ctx context.Context) error {
	if err := inParallel(ctx, p.managedPartitions(ctx, p.ns), p.deletePartition); err != nil {
		return err
	}
	for try := 0; ; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		found := 0
		err := inParallel(ctx, counted(p.indexedPartitions(ctx, p.ns), &found), p.deletePartition)
		if err != nil {
			return err
		}
		if found == 0 {
			return p.deletePartition(ctx, systemPK(p.ns))
		}
	}
}

// indexedPartitions are those of a namespace but the system's. Items of one
// partition follow each other in the index.
func (s *store) indexedPartitions(ctx context.Context, ns string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		last := systemPK(ns)
		for it, err := range s.query(ctx, ns, indexed(indexNamespace, ns, namespacePrefix(ns))) {
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

// managedPartitions are those that the system's partition names, each once: what
// Python's provisioner writes is not indexed, but it keeps a list.
func (s *store) managedPartitions(ctx context.Context, ns string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		named := map[string]bool{}
		for it, err := range s.query(ctx, ns, partition(systemPK(ns))) {
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

// texts are the strings of a set or a list, or the names in a map.
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
	in := partition(pk)
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

// remove deletes items and tells how many are gone by now.
func (p *purge) remove(ctx context.Context, batch []key) error {
	if err := p.deleteAll(ctx, batch); err != nil || len(batch) == 0 {
		return err
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if p.items += len(batch); p.opts.Purged != nil {
		p.opts.Purged(p.items)
	}
	return nil
}

// endPurge drops the last trace.
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
