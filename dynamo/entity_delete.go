package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// DeleteEntity removes the record, limits, buckets and usage. ErrNotFound when
// nothing is stored under the entity, not even a bucket whose time is over.
//
// The last item goes together with the event. So as long as the event has not
// been written there is something left for another call to find, and to finish.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	if err := r.requireActiveNow(ctx, ev.At); err != nil {
		return err
	}
	records := 0
	for try := 0; ; try++ {
		if err := pause(ctx, try); err != nil {
			return err
		}
		left, err := r.itemsOf(ctx, id)
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
		r.forgetEntity(id) // also when it failed: part of it is done
		if _, overtaken := refusedAt(err, 0); !overtaken || try == maxTries {
			return err
		}
		if left[len(left)-1].sk == metaSK {
			records = 0 // whoever took the record has written the event
		}
	}
}

// itemsOf are the keys of all that is stored under an entity, in the order in
// which it is deleted: limits, which registries count, then buckets and usage,
// and the record at the end.
func (r *Repository) itemsOf(ctx context.Context, id string) ([]key, error) {
	in := partition(entityPK(r.ns, id))
	in.ProjectionExpression = aws.String("#pk, #sk")
	in.ExpressionAttributeNames["#sk"] = attrSK
	var keys []key
	for it, err := range r.query(ctx, r.ns, in) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, it.key())
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

// deleteItems deletes in the order given, and the last item with the event. It
// is refused at its first item if somebody else has deleted that.
func (r *Repository) deleteItems(ctx context.Context, keys []key, event types.TransactWriteItem) error {
	if len(keys) == 0 {
		return r.change(ctx, event)
	}
	last := keys[len(keys)-1]
	keys = keys[:len(keys)-1]
	for len(keys) > 0 && deletionRank(keys[0]) == 0 {
		err := r.removeEntityConfig(ctx, keys[0])
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

// forgetEntity drops what this process knows of an entity.
func (r *Repository) forgetEntity(id string) {
	r.cache.evictIf(func(k factKey) bool { return k.ns == r.ns && k.scope.Entity == id })
	r.images.forget(entityPK(r.ns, id))
}
