package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A namespace has two records. The forward record maps its name to its ID, and
// exists while the namespace is active. The reverse record has its ID and state,
// and exists until the namespace is purged. This package writes both in one
// transaction. Python writes one after the other, so a killed service may leave
// one without the other.

// isActive reports whether a forward or reverse record, which may be nil, has
// the state active.
func isActive(record item) bool { return record.text(attrStatus) == statusActive }

// Namespace returns a view of another namespace, limiter.ErrNotFound if it is not
// active, or *limiter.VersionError if it has buckets of a newer release, as Connect
// does.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := r.namespace(ctx, name)
	if err == nil {
		err = r.checkLayout(ctx, view.ns, name)
	}
	if err != nil {
		return nil, err
	}
	return view, nil
}

func (r *Repository) namespace(ctx context.Context, name string) (*Repository, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if name == reservedNamespace { // other programs can register it
		return nil, errReserved
	}

	forward, err := r.get(ctx, namespaceKey(name))
	if err != nil {
		return nil, err
	}
	if !isActive(forward) {
		return nil, nameNotFound(name)
	}
	return &Repository{store: r.store, ns: forward.text(attrNamespaceID), name: name, view: true}, nil
}

func nameNotFound(name string) error {
	return fmt.Errorf("namespace %q: %w", name, limiter.ErrNotFound)
}

func idNotFound(id string) error { return fmt.Errorf("namespace ID %q: %w", id, limiter.ErrNotFound) }

// Namespaces iterates over the namespaces in any state, by name, then ID. It
// includes names that only Python accepts.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rules.Sequence(func() ([]limiter.Namespace, error) {
		if err := r.ready(ctx); err != nil {
			return nil, err
		}
		return r.namespaces(ctx)
	})
}

func (s *store) namespaces(ctx context.Context) ([]limiter.Namespace, error) {
	var reverse []item
	forward := map[string]string{} // name to ID
	for it, err := range s.query(ctx, reservedNamespace, queryPartition(systemPK(reservedNamespace))) {
		if err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(it.text(attrSK), namespaceSKPrefix); ok {
			forward[name] = it.text(attrNamespaceID)
		} else if strings.HasPrefix(it.text(attrSK), namespaceIDSKPrefix) {
			reverse = append(reverse, it)
		}
	}

	// The forward record of a deleted namespace is gone, so the reverse records
	// list the namespaces.
	var all []limiter.Namespace
	for _, it := range reverse {
		n := decodeNamespace(it)
		all = append(all, withState(n, it, forward[n.Name] == n.ID))
	}

	slices.SortFunc(all, func(a, b limiter.Namespace) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// decodeNamespace decodes the fields that forward and reverse records share.
func decodeNamespace(record item) limiter.Namespace {
	id, _ := strings.CutPrefix(record.text(attrSK), namespaceIDSKPrefix)
	return limiter.Namespace{
		ID: cmp.Or(record.text(attrNamespaceID), id), Name: record.text(attrNamespaceName),
		CreatedAt: record.time(attrCreatedAt),
	}
}

// withState adds the state of the reverse record. An active one without a
// forward record was left by an interrupted delete of Python's. It counts as
// deleted, at an unknown time.
func withState(n limiter.Namespace, reverse item, forward bool) limiter.Namespace {
	if isActive(reverse) && forward {
		return n
	}

	n.Purging = reverse.text(attrStatus) == statusPurging
	n.DeletedAt = reverse.time(attrDeletedAt)

	// A namespace without a time of deletion would look active.
	if n.DeletedAt.IsZero() {
		n.DeletedAt = n.CreatedAt
	}
	if n.DeletedAt.IsZero() {
		n.DeletedAt = time.Unix(0, 0).UTC()
	}
	return n
}

// RegisterNamespace creates a namespace, or returns the active one of that name.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	if err := r.ready(ctx); err != nil {
		return limiter.Namespace{}, err
	}
	n, err := r.register(ctx, now, name)
	r.evictNamespace(n.ID)
	return n, err
}

// register does the work of RegisterNamespace, also without a repository.
func (s *store) register(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	for try := 0; ; try++ {
		n := limiter.Namespace{ID: rules.NewNamespaceID(), Name: name, CreatedAt: rules.WholeSecond(now)}
		err := s.transact(ctx, s.putIf(namespaceRecord(namespaceKey(name), n), absent()),
			s.putIf(namespaceRecord(namespaceIDKey(n.ID), n), absent()))
		if err == nil {
			return n, nil
		}
		if resultOf(err) != refused {
			return limiter.Namespace{}, s.explain(err)
		}

		forward, getErr := s.get(ctx, namespaceKey(name))
		if getErr != nil {
			return limiter.Namespace{}, getErr
		}
		if isActive(forward) {
			return decodeNamespace(forward), nil
		}

		// Another call has just deleted it, or the random ID is taken.
		if err := s.next(ctx, try, err); err != nil {
			return limiter.Namespace{}, err
		}
	}
}

// DeleteNamespace deletes a namespace. Its name becomes free, and its data stay
// under its ID until it is purged or recovered.
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
		err = r.releaseName(ctx, now, name, id)
		// The outcome may be unknown, so the cache forgets the state after an
		// error as well.
		r.evictNamespace(id)
		if resultOf(err) != refused {
			return r.explain(err)
		}

		if err := r.next(ctx, try, err); err != nil {
			return err
		}
	}
}

// releaseName deletes the forward record and marks the reverse record as
// deleted. If that is not active, an interrupted recovery of Python's left the
// forward record, and releaseName deletes only this.
func (s *store) releaseName(ctx context.Context, now time.Time, name, id string) error {
	forward := s.deleteIf(namespaceKey(name), new(condition).same(item{attrNamespaceID: text(id)}, attrNamespaceID))
	err := s.transact(ctx, forward, s.changeState(id, statusActive,
		"SET #status = :new, #at = :at", item{":new": text(statusDeleted), ":at": stamp(now)}))

	_, gone := refusedAt(err, 0)
	if _, odd := refusedAt(err, 1); odd && !gone {
		return s.transact(ctx, forward)
	}
	return err
}

// changeState returns the update of a reverse record, if it is in the state from.
// In the expression, #status is the state and #at the time of deletion.
func (s *store) changeState(id, from, update string, values item) types.TransactWriteItem {
	names := map[string]string{"#status": attrStatus}
	// The service rejects an expression with a name that it does not use.
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

// RecoverNamespace reactivates a deleted namespace under its old name.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	if err := r.ready(ctx); err != nil {
		return limiter.Namespace{}, err
	}
	for try := 0; ; try++ {
		n, state, err := r.recoverable(ctx, id)
		if err != nil {
			return limiter.Namespace{}, err
		}

		if n.CreatedAt.IsZero() {
			n.CreatedAt = rules.WholeSecond(now)
		}

		err = r.restore(ctx, n, state)
		r.evictNamespace(id)
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

// recoverable returns a namespace that can be recovered, without its time of
// deletion, and the state in its reverse record.
func (s *store) recoverable(ctx context.Context, id string) (n limiter.Namespace, state string, err error) {
	reverse, err := s.get(ctx, namespaceIDKey(id))
	if err != nil {
		return n, "", err
	}
	if reverse == nil {
		return n, "", idNotFound(id)
	}

	n, state = decodeNamespace(reverse), reverse.text(attrStatus)
	if state == statusPurging {
		return n, "", fmt.Errorf("namespace ID %q is being purged: %w", id, limiter.ErrConflict)
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
		return n, "", fmt.Errorf("namespace ID %q is active: %w", id, limiter.ErrConflict)
	}
	return n, state, nil
}

// restore writes the forward record and marks the reverse record as active. It
// accepts a forward record of the same ID, which an interrupted recovery of
// Python's leaves.
func (s *store) restore(ctx context.Context, n limiter.Namespace, state string) error {
	forward := s.putIf(namespaceRecord(namespaceKey(n.Name), n), nil)
	forward.Put.ConditionExpression = aws.String("attribute_not_exists(#pk) OR #id = :id")
	forward.Put.ExpressionAttributeNames = map[string]string{"#pk": attrPK, "#id": attrNamespaceID}
	forward.Put.ExpressionAttributeValues = item{":id": text(n.ID)}

	return s.transact(ctx, forward, s.changeState(n.ID, state,
		"SET #status = :new REMOVE #at", item{":new": text(statusActive)}))
}

// next waits before another try. After maxTries it returns the last error.
func (s *store) next(ctx context.Context, try int, last error) error {
	if try == maxTries {
		return s.explain(last)
	}
	return pause.For(ctx, backoff(try+1))
}

// namespaceRecord returns the forward or reverse record of an active namespace.
func namespaceRecord(k key, n limiter.Namespace) item {
	it := newItem(reservedNamespace, k)
	it[attrNamespaceID], it[attrNamespaceName] = text(n.ID), text(n.Name)
	it[attrStatus], it[attrCreatedAt] = text(statusActive), stamp(n.CreatedAt)
	return it
}

// evictNamespace makes the next call read the state of the namespace.
func (s *store) evictNamespace(id string) { s.cache.evict(factKey{ns: id, kind: factNamespace}) }
