package dynamo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// DeleteNamespace makes the name free; the data stay under its ID.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	for try := 0; ; try++ {
		forward, err := r.get(ctx, namespaceKey(name))
		if err != nil {
			return err
		}
		if !isActive(forward) {
			return nameNotFound(name)
		}
		id := forward.text(attrNamespaceID)
		err = r.delete(ctx, now, name, id)
		r.forgetSpace(id)
		if resultOf(err) != refused {
			return r.explain(err)
		}
		if err := r.next(ctx, try, err); err != nil {
			return err
		}
	}
}

// delete takes the name from an ID. Where the reverse record is not active, a
// recovery by Python was stopped half-way, and only the name has to go.
func (s *store) delete(ctx context.Context, now time.Time, name, id string) error {
	forward := s.deleteIf(namespaceKey(name), new(condition).same(item{attrNamespaceID: text(id)}, attrNamespaceID))
	err := s.transact(ctx, forward, s.changeState(id, statusActive,
		"SET #status = :new, #at = :at", item{":new": text(statusDeleted), ":at": stamp(now)}))
	_, gone := refusedAt(err, 0)
	if _, odd := refusedAt(err, 1); odd && !gone {
		return s.transact(ctx, forward)
	}
	return err
}

// changeState changes a reverse record that is in the state from. The update
// may name #status and #at, when it was deleted.
func (s *store) changeState(id, from, update string, values item) types.TransactWriteItem {
	names := map[string]string{"#status": attrStatus}
	if strings.Contains(update, "#at") {
		names["#at"] = attrDeletedAt
	}
	values[":from"] = text(from)
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: namespaceIDKey(id).at(),
		ConditionExpression:       aws.String("#status = :from"),
		UpdateExpression:          &update,
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	}}
}

// RecoverNamespace makes a deleted namespace active again.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	if err := r.ready(ctx); err != nil {
		return limiter.Namespace{}, err
	}
	for try := 0; ; try++ {
		n, state, err := r.deleted(ctx, id)
		if err != nil {
			return limiter.Namespace{}, err
		}
		if n.CreatedAt.IsZero() {
			n.CreatedAt = rules.WholeSecond(now)
		}
		err = r.restore(ctx, n, state)
		r.forgetSpace(id)
		if err == nil {
			return n, nil
		}
		if resultOf(err) != refused {
			return limiter.Namespace{}, r.explain(err)
		}
		if err := r.next(ctx, try, err); err != nil {
			return limiter.Namespace{}, err
		}
	}
}

// deleted is a namespace that may be recovered, without when it was deleted,
// and the state its reverse record is in.
func (s *store) deleted(ctx context.Context, id string) (n limiter.Namespace, state string, err error) {
	reverse, err := s.get(ctx, namespaceIDKey(id))
	if err != nil {
		return n, "", err
	}
	if reverse == nil {
		return n, "", idNotFound(id)
	}
	n, state = decodeNamespace(reverse), reverse.text(attrStatus)
	if state == statusPurging {
		return n, "", fmt.Errorf("namespace id %q is being purged: %w", id, limiter.ErrConflict)
	}
	if n.Name == "" {
		return n, "", reverse.corrupt("it has no name, so it can only be purged")
	}
	forward, err := s.get(ctx, namespaceKey(n.Name))
	switch holder := forward.text(attrNamespaceID); {
	case err != nil:
		return n, "", err
	case forward != nil && holder != id:
		return n, "", fmt.Errorf("namespace %q: %w", n.Name, limiter.ErrExists)
	case forward != nil && state == statusActive:
		return n, "", fmt.Errorf("namespace id %q is active: %w", id, limiter.ErrConflict)
	}
	return n, state, nil
}

// restore gives the name back. A forward record that is there already and has
// this ID is what a recovery by Python left that was stopped half-way.
func (s *store) restore(ctx context.Context, n limiter.Namespace, state string) error {
	forward := s.putIf(record(namespaceKey(n.Name), n), nil)
	forward.Put.ConditionExpression = aws.String("attribute_not_exists(#pk) OR #id = :id")
	forward.Put.ExpressionAttributeNames = map[string]string{"#pk": attrPK, "#id": attrNamespaceID}
	forward.Put.ExpressionAttributeValues = item{":id": text(n.ID)}
	return s.transact(ctx, forward, s.changeState(n.ID, state,
		"SET #status = :new REMOVE #at", item{":new": text(statusActive)}))
}
