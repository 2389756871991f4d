package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// CreateEntity stores an entity and its event. It returns limiter.ErrExists if the ID is
// taken.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}

	if err := r.checkPlace(ctx, &e, ev); err != nil {
		return err
	}

	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}

	err = r.change(ctx, r.putIf(r.entityItem(e), absent()), event)

	// If the write failed, this call or another may still have stored the
	// entity.
	r.cache.evict(r.entityFact(e.ID))

	if _, exists := refusedAt(err, 0); exists {
		return fmt.Errorf("entity %q: %w", e.ID, limiter.ErrExists)
	}
	return err
}

// checkPlace returns an error if an entity would be its own ancestor or too deep, and
// limiter.ErrExists if it exists. Another process may store an ancestor meanwhile: a
// chain that becomes too deep by that is found by a charge, and an entity that becomes
// its own ancestor ends it.
func (r *Repository) checkPlace(ctx context.Context, e *limiter.Entity, ev limiter.AuditEvent) error {
	err := rules.CheckPlace(e, func(id string) (chain.Place, error) {
		facts, _, err := r.lookup(ctx, ev.At.UnixMilli(), 0, []factKey{r.entityFact(id)})
		if err != nil {
			return chain.Place{}, err
		}
		return facts[0].place, nil
	})

	if _, invalid := errors.AsType[*limiter.InvalidError](err); invalid {
		it, readErr := r.get(ctx, metaKey(r.ns, e.ID))
		switch {
		case readErr != nil:
			return readErr
		case it != nil:
			return fmt.Errorf("entity %q: %w", e.ID, limiter.ErrExists)
		}
	}
	return err
}

// entityItem returns the item of an entity's record.
func (r *Repository) entityItem(e limiter.Entity) item {
	it := newItem(r.ns, metaKey(r.ns, e.ID))
	it[attrEntity] = text(e.ID)
	it[attrName] = text(e.Name)
	it[attrParent] = textOrNull(e.Parent)
	it[attrCascade] = truth(e.Cascade)
	it[attrMetadata], _ = value(e.Metadata)
	it[attrCreatedAt] = stamp(e.CreatedAt)
	if e.Generation != 0 {
		it[attrGeneration] = number(e.Generation)
	}

	if e.Parent != "" {
		it[attrGSI1PK], it[attrGSI1SK] = text(parentPK(r.ns, e.Parent)), text(childGSIPrefix+e.ID)
	}

	return it
}

// Entity returns the stored record of an entity, or limiter.ErrNotFound.
func (r *Repository) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	it, err := r.getActive(ctx, metaKey(r.ns, id))
	if err != nil {
		return limiter.Entity{}, err
	}
	if it == nil {
		return limiter.Entity{}, fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
	}
	return r.decodeEntity(it), nil
}

// decodeEntity decodes the record of an entity.
func (r *Repository) decodeEntity(it item) limiter.Entity {
	// A damaged number counts as none, as other damage does here.
	generation, _ := it.number(attrGeneration)

	return limiter.Entity{
		ID:         strings.TrimPrefix(it.text(attrPK), entityPKPrefix(r.ns)),
		Name:       it.text(attrName),
		Parent:     it.text(attrParent),
		Cascade:    it.truth(attrCascade),
		Metadata:   decodeMetadata(it),
		CreatedAt:  it.time(attrCreatedAt),
		Generation: generation,
	}
}

// decodeMetadata decodes metadata. Python can store values that are not strings;
// these become JSON. Empty metadata are nil.
func decodeMetadata(it item) map[string]string {
	m, ok := it[attrMetadata].(*types.AttributeValueMemberM)
	if !ok || len(m.Value) == 0 {
		return nil
	}

	metadata := make(map[string]string, len(m.Value))
	for name, v := range m.Value {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			metadata[name] = v.Value
		case *types.AttributeValueMemberN:
			metadata[name] = v.Value
		default:
			var buffer bytes.Buffer
			encoder := json.NewEncoder(&buffer)
			encoder.SetEscapeHTML(false)

			// It cannot fail, because plain returns plain values only.
			_ = encoder.Encode(plain(v))
			metadata[name] = strings.TrimSuffix(buffer.String(), "\n")
		}
	}
	return metadata
}

// Entities iterates over the children of parent, or over all entities if parent
// is empty, by ID.
func (r *Repository) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	if parent == "" {
		return r.allEntities(ctx)
	}
	return listing(ctx, r, func() *dynamodb.QueryInput {
		return queryIndex(indexChildren, parentPK(r.ns, parent), childGSIPrefix)
	}, func(it item) (limiter.Entity, bool, error) {
		return r.decodeEntity(it), it.text(attrSK) == metaSK, nil
	})
}

// allEntities iterates over all entities. It queries the index of the namespace,
// which holds keys only, and reads the records in batches.
func (r *Repository) allEntities(ctx context.Context) iter.Seq2[limiter.Entity, error] {
	keys := listing(ctx, r, func() *dynamodb.QueryInput {
		in := queryIndex(indexNamespace, r.ns, entityPKPrefix(r.ns))
		in.FilterExpression = aws.String("#type = :meta")
		in.ExpressionAttributeNames["#type"] = attrSK
		in.ExpressionAttributeValues[":meta"] = text(metaSK)
		return in
	}, func(it item) (key, bool, error) { return it.key(), true, nil })

	return func(yield func(limiter.Entity, error) bool) {
		for batch, err := range inBatches(keys, maxGets) {
			if err != nil {
				yield(limiter.Entity{}, err)
				return
			}
			if !r.yieldEntities(ctx, batch, yield) {
				return
			}
		}
	}
}

// yieldEntities reads and yields records. It skips records that have been
// deleted, and reports whether to continue.
func (r *Repository) yieldEntities(ctx context.Context, keys []key, yield func(limiter.Entity, error) bool) bool {
	found, err := r.getListed(ctx, keys)
	if err != nil {
		yield(limiter.Entity{}, err)
		return false
	}

	for _, k := range keys {
		if it, ok := found[k]; ok && !yield(r.decodeEntity(it), nil) {
			return false
		}
	}
	return true
}

// DeleteEntity deletes the record, limits, buckets and usage of an entity. It
// returns limiter.ErrNotFound if nothing is stored under the entity, not even an expired
// bucket.
//
// DeleteEntity deletes the last item in one transaction with the event. Until
// then an item is left, so that another call can finish an interrupted one.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}

	records := 0
	for try := 0; ; try++ {
		if err := pause.For(ctx, backoff(try)); err != nil {
			return err
		}

		left, err := r.entityKeys(ctx, id)
		if err != nil {
			return err
		}

		if len(left) == 0 && records == 0 {
			return fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
		}
		records += len(left)

		event, err := r.auditPut(ctx, rules.With(ev, "records_deleted", int64(records)))
		if err != nil {
			return err
		}

		err = r.deleteItems(ctx, left, event)

		// A call that failed may have deleted some of the items.
		r.forgetEntity(id)

		if _, overtaken := refusedAt(err, 0); !overtaken || try == maxTries {
			return err
		}

		// Another call has deleted the record and counted these items in its
		// event.
		if left[len(left)-1].sk == metaSK {
			records = 0
		}
	}
}

// entityKeys returns the keys of an entity's items in the order of their deletion:
// limits, which registries count, then buckets and usage, and last the record. It
// omits switches and the IDs of top-ups, which outlive the entity.
func (r *Repository) entityKeys(ctx context.Context, id string) ([]key, error) {
	in := queryPartition(entityPK(r.ns, id))
	in.ProjectionExpression = aws.String("#pk, #sk")
	in.ExpressionAttributeNames["#sk"] = attrSK

	var keys []key
	for it, err := range r.query(ctx, r.ns, in) {
		if err != nil {
			return nil, err
		}
		if k := it.key(); k.sk != switchSK && !strings.HasPrefix(k.sk, topUpSKPrefix) {
			keys = append(keys, k)
		}
	}

	slices.SortStableFunc(keys, func(a, b key) int { return deletionRank(a) - deletionRank(b) })
	return keys, nil
}

func deletionRank(k key) int {
	switch {
	case strings.HasPrefix(k.sk, configSKPrefix):
		return 0
	case k.sk == metaSK:
		return 2
	}
	return 1
}

// deleteItems deletes items in order, the last one in a transaction with the
// event. If another call has deleted that one, the transaction is refused at its
// first item.
func (r *Repository) deleteItems(ctx context.Context, keys []key, event types.TransactWriteItem) error {
	if len(keys) == 0 {
		return r.change(ctx, event)
	}

	last := keys[len(keys)-1]
	keys = keys[:len(keys)-1]

	// Each config goes together with its count in a registry.
	for len(keys) > 0 && deletionRank(keys[0]) == 0 {
		err := r.removeEntityConfig(ctx, keys[0])

		// Another call may have deleted the config.
		if _, gone := refusedAt(err, 0); err != nil && !gone {
			return err
		}
		keys = keys[1:]
	}

	if err := r.deleteAll(ctx, keys); err != nil {
		return err
	}

	if deletionRank(last) == 0 {
		return r.removeEntityConfig(ctx, last, event)
	}
	return r.change(ctx, r.deleteIf(last, present()), event)
}

// forgetEntity drops everything cached of an entity.
func (r *Repository) forgetEntity(id string) {
	ofEntity := func(k factKey) bool { return k.ns == r.ns && k.scope.Entity == id }
	r.cache.evictIf(ofEntity)
	r.listed.evictIf(ofEntity)
	r.images.forget(entityPK(r.ns, id))
	r.seen.forgetAncestor(r.entityFact(id))
}
