package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A namespace has two records: the forward one, by name, only while it is
// active, and the reverse one, by ID, until it is purged. Both are written in
// one transaction. Python writes them one after the other, so a service that
// was killed in between leaves one without the other; what that means is said
// where it matters.

// isActive tells whether a forward or reverse record, which may be missing, is
// that of an active namespace.
func isActive(record item) bool { return record.text(attrStatus) == statusActive }

// Namespace is a view of another namespace; ErrNotFound unless it is active.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if name == reservedNamespace { // whoever may have registered it
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

func idNotFound(id string) error { return fmt.Errorf("namespace id %q: %w", id, limiter.ErrNotFound) }

// Namespaces are those in any state, by name, then ID. Names that only Python
// accepts are listed as they are.
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
	for it, err := range s.query(ctx, reservedNamespace, partition(systemPK(reservedNamespace))) {
		if err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(it.text(attrSK), namespaceSKPrefix); ok {
			forward[name] = it.text(attrNamespaceID)
		} else if strings.HasPrefix(it.text(attrSK), namespaceIDSKPrefix) {
			reverse = append(reverse, it)
		}
	}
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

// decodeNamespace is what forward and reverse record have in common.
func decodeNamespace(record item) limiter.Namespace {
	id, _ := strings.CutPrefix(record.text(attrSK), namespaceIDSKPrefix)
	return limiter.Namespace{
		ID: cmp.Or(record.text(attrNamespaceID), id), Name: record.text(attrNamespaceName), CreatedAt: record.time(attrCreatedAt),
	}
}

// withState adds what the reverse record says about deletion. One that is
// active but has no forward record is what a delete by Python left that was
// stopped half-way: it counts as deleted, though nobody knows when.
func withState(n limiter.Namespace, reverse item, forward bool) limiter.Namespace {
	if isActive(reverse) && forward {
		return n
	}
	n.Purging = reverse.text(attrStatus) == statusPurging
	n.DeletedAt = reverse.time(attrDeletedAt)
	if n.DeletedAt.IsZero() {
		n.DeletedAt = n.CreatedAt
	}
	if n.DeletedAt.IsZero() {
		n.DeletedAt = time.Unix(0, 0).UTC()
	}
	return n
}

// RegisterNamespace makes the name active, or returns the one that is.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	if err := r.ready(ctx); err != nil {
		return limiter.Namespace{}, err
	}
	n, err := r.register(ctx, now, name)
	r.forgetSpace(n.ID)
	return n, err
}

// register is RegisterNamespace for those who have no repository yet.
func (s *store) register(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	for try := 0; ; try++ {
		n := limiter.Namespace{ID: rules.NewNamespaceID(), Name: name, CreatedAt: rules.WholeSecond(now)}
		err := s.transact(ctx, s.putIf(record(namespaceKey(name), n), absent()), s.putIf(record(namespaceIDKey(n.ID), n), absent()))
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
		// It was deleted a moment ago, or the ID is taken.
		if err := s.next(ctx, try, err); err != nil {
			return limiter.Namespace{}, err
		}
	}
}

// next waits before another try, or ends a loop that others keep disturbing.
func (s *store) next(ctx context.Context, try int, last error) error {
	if try == maxTries {
		return s.explain(last)
	}
	return pause(ctx, try+1)
}

// record is a forward or reverse record of an active namespace.
func record(k key, n limiter.Namespace) item {
	it := newItem(reservedNamespace, k)
	it[attrNamespaceID], it[attrNamespaceName] = text(n.ID), text(n.Name)
	it[attrStatus], it[attrCreatedAt] = text(statusActive), stamp(n.CreatedAt)
	return it
}

// forgetSpace makes the next call ask whether the namespace is active.
func (s *store) forgetSpace(id string) { s.cache.evict(factKey{ns: id, kind: factNamespace}) }
