package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// CreateEntity stores an entity and its event. ErrExists.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}
	event, err := r.auditPut(ctx, ev)
	if err != nil {
		return err
	}
	err = r.change(ctx, r.putIf(r.entityItem(e), absent()), event)
	r.cache.evict(r.entityFact(e.ID)) // also when it failed: it may be stored now, by this call or by another
	if _, exists := refusedAt(err, 0); exists {
		return fmt.Errorf("entity %q: %w", e.ID, limiter.ErrExists)
	}
	return err
}

// entityItem is all that is stored of an entity's record.
func (r *Repository) entityItem(e limiter.Entity) item {
	it := newItem(r.ns, metaKey(r.ns, e.ID))
	it[attrEntity] = text(e.ID)
	it[attrName] = text(e.Name)
	it[attrParent] = textOrNull(e.Parent)
	it[attrCascade] = truth(e.Cascade)
	it[attrMetadata], _ = value(e.Metadata)
	it[attrCreatedAt] = stamp(e.CreatedAt)
	if e.Parent != "" {
		it[attrGSI1PK], it[attrGSI1SK] = text(parentPK(r.ns, e.Parent)), text(childGSIPrefix+e.ID)
	}
	return it
}

// Entity is the stored record. ErrNotFound.
func (r *Repository) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	it, err := r.look(ctx, metaKey(r.ns, id))
	if err != nil {
		return limiter.Entity{}, err
	}
	if it == nil {
		return limiter.Entity{}, fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
	}
	return r.decodeEntity(it), nil
}

// decodeEntity is the record in an item.
func (r *Repository) decodeEntity(it item) limiter.Entity {
	return limiter.Entity{
		ID:        strings.TrimPrefix(it.text(attrPK), entityPKPrefix(r.ns)),
		Name:      it.text(attrName),
		Parent:    it.text(attrParent),
		Cascade:   it.truth(attrCascade),
		Metadata:  decodeMetadata(it),
		CreatedAt: it.time(attrCreatedAt),
	}
}

// decodeMetadata renders values that are not strings, which Python lets in, as
// JSON. Empty metadata are nil.
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
			_ = encoder.Encode(plain(v)) // of plain values only: it does not fail
			metadata[name] = strings.TrimSuffix(buffer.String(), "\n")
		}
	}
	return metadata
}

// Entities are the children of parent, or all, by ID.
func (r *Repository) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	if parent == "" {
		return r.allEntities(ctx)
	}
	return listing(ctx, r, func() *dynamodb.QueryInput {
		return indexed(indexChildren, parentPK(r.ns, parent), childGSIPrefix)
	}, func(it item) (limiter.Entity, bool, error) {
		return r.decodeEntity(it), it.text(attrSK) == metaSK, nil
	})
}

// allEntities finds the keys of records in the index of the namespace, which
// has keys only, and reads the records.
func (r *Repository) allEntities(ctx context.Context) iter.Seq2[limiter.Entity, error] {
	keys := listing(ctx, r, func() *dynamodb.QueryInput {
		in := indexed(indexNamespace, r.ns, entityPKPrefix(r.ns))
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

// yieldEntities reads records and passes them on, without those that have been
// deleted meanwhile. It tells whether to go on.
func (r *Repository) yieldEntities(ctx context.Context, keys []key, yield func(limiter.Entity, error) bool) bool {
	found, err := r.getAll(ctx, keys)
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
