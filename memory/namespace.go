package memory

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// namespace is the data of one namespace. Its mutex guards what people change,
// the shards what traffic changes. Whoever needs both takes mu first, then
// shards in ascending order.
type namespace struct {
	unusable atomic.Bool       // deleted, or the store is closed
	purged   atomic.Bool       // for good; leases may still refer to it
	space    limiter.Namespace // guarded by the store's mutex; ID and Name never change

	mu       sync.RWMutex
	facts    atomic.Uint64 // rises with every change of an entity or a config
	entities map[string]limiter.Entity
	configs  map[limiter.Scope]limiter.Config
	audit    map[string][]limiter.AuditEvent // oldest first
	managed  rules.Managed
	forgetAt int64        // when to look for old events again
	mode     atomic.Value // limiter.OnUnavailable

	machine *rules.Machine // the store's, like the sweeper
	sweeper *sweeper
	ttl     int
	made    atomic.Uint64 // buckets so far
	seed    maphash.Seed
	shards  [1 << shardBits]shard
}

// add makes a namespace. The caller holds the store's mutex, or is New.
func (s *store) add(space limiter.Namespace) *namespace {
	space.ID = rules.NewNamespaceID()
	n := &namespace{
		space: space, ttl: s.ttl, seed: maphash.MakeSeed(), machine: &s.machine, sweeper: &s.sweeper,
		entities: map[string]limiter.Entity{},
		configs:  map[limiter.Scope]limiter.Config{},
		audit:    map[string][]limiter.AuditEvent{},
	}
	n.unusable.Store(s.err != nil)
	n.facts.Store(1)
	n.mode.Store(limiter.OnUnavailable(""))
	for i := range n.shards {
		n.shards[i].seed = n.seed
		n.shards[i].retention = s.retention
	}
	s.spaces[space.ID] = n
	s.sweeper.watch(n)
	return n
}

// active is the namespace that has the name now, or nil.
func (s *store) active(name string) *namespace {
	for _, n := range s.spaces {
		if n.space.Name == name && n.space.DeletedAt.IsZero() {
			return n
		}
	}
	return nil
}

// NamespaceID is the one the repository looks at.
func (r *Repository) NamespaceID() string { return r.space.ID }

// Namespace is a view of another namespace; ErrNotFound unless it is active.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	r.store.mu.RLock()
	defer r.store.mu.RUnlock()
	n := r.store.active(name)
	if n == nil {
		return nil, fmt.Errorf("namespace %q: %w", name, limiter.ErrNotFound)
	}
	return &Repository{store: r.store, namespace: n, view: true}, nil
}

// Namespaces are those in any state, by name, then ID.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rules.Sequence(func() ([]limiter.Namespace, error) {
		if err := r.ready(ctx); err != nil {
			return nil, err
		}
		r.store.mu.RLock()
		defer r.store.mu.RUnlock()
		var all []limiter.Namespace
		for _, n := range r.store.spaces {
			all = append(all, n.space)
		}
		slices.SortFunc(all, func(a, b limiter.Namespace) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		return all, nil
	})
}

// RegisterNamespace makes the name active, or returns the one that is.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Namespace{}, err
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return limiter.Namespace{}, r.store.err
	}
	n := r.store.active(name)
	if n == nil {
		n = r.store.add(limiter.Namespace{Name: name, CreatedAt: rules.WholeSecond(now)})
	}
	return n.space, nil
}

// DeleteNamespace makes the name free; the data stay under its ID.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return r.store.err
	}
	n := r.store.active(name)
	if n == nil {
		return fmt.Errorf("namespace %q: %w", name, limiter.ErrNotFound)
	}
	n.space.DeletedAt = rules.WholeSecond(now)
	n.unusable.Store(true)
	return nil
}

// RecoverNamespace makes a deleted namespace active again.
func (r *Repository) RecoverNamespace(ctx context.Context, _ time.Time, id string) (limiter.Namespace, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Namespace{}, err
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return limiter.Namespace{}, r.store.err
	}
	n := r.store.spaces[id]
	switch {
	case n == nil:
		return limiter.Namespace{}, fmt.Errorf("namespace id %q: %w", id, limiter.ErrNotFound)
	case n.space.DeletedAt.IsZero():
		return limiter.Namespace{}, fmt.Errorf("namespace id %q is active: %w", id, limiter.ErrConflict)
	case r.store.active(n.space.Name) != nil:
		return limiter.Namespace{}, fmt.Errorf("namespace %q: %w", n.space.Name, limiter.ErrExists)
	}
	n.space.DeletedAt = time.Time{}
	n.unusable.Store(false)
	return n.space, nil
}

// PurgeNamespace destroys the data of a deleted namespace.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return r.store.err
	}
	n := r.store.spaces[id]
	switch {
	case n == nil:
		return fmt.Errorf("namespace id %q: %w", id, limiter.ErrNotFound)
	case n.space.DeletedAt.IsZero():
		return fmt.Errorf("namespace id %q is active: %w", id, limiter.ErrConflict)
	}
	delete(r.store.spaces, id)
	n.purged.Store(true)
	r.store.sweeper.leave(n)
	return nil
}
