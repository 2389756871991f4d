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

// namespace holds the data of one namespace. mu guards entities and
// configuration, the shards guard buckets and usage. The lock order is mu, then
// shards in ascending order.
type namespace struct {
	inactive atomic.Bool // deleted, or the store is closed
	purged   atomic.Bool // leases may still refer to it
	// info is guarded by the store's mutex. Its ID and Name never change.
	info limiter.Namespace

	mu sync.RWMutex
	// generation is incremented by every change of an entity, a config or a
	// switch.
	generation atomic.Uint64
	entities   map[string]limiter.Entity
	configs    map[limiter.Scope]limiter.Config
	audit      map[string][]limiter.AuditEvent // oldest first
	switches   rules.Switches
	topUps     map[topUp]int64 // when each is forgotten
	keptTopUps int             // number of topUps after the last cleaning
	managed    rules.Managed
	forgetAt   int64        // when to look for old events next
	mode       atomic.Value // limiter.OnUnavailable

	machine *rules.Machine // shared with the store, like sweeper
	sweeper *sweeper
	ttl     int
	created atomic.Uint64 // number of buckets created so far
	seed    maphash.Seed
	shards  [1 << shardBits]shard
}

// add creates a namespace. The caller holds the store's mutex, or is New.
func (s *store) add(info limiter.Namespace) *namespace {
	info.ID = rules.NewNamespaceID()
	n := &namespace{
		info: info, ttl: s.ttl, seed: maphash.MakeSeed(), machine: &s.machine, sweeper: &s.sweeper,
		entities: map[string]limiter.Entity{},
		configs:  map[limiter.Scope]limiter.Config{},
		audit:    map[string][]limiter.AuditEvent{},
		switches: rules.Switches{},
		topUps:   map[topUp]int64{},
	}

	n.inactive.Store(s.err != nil)
	n.generation.Store(1)
	n.mode.Store(limiter.OnUnavailable(""))

	for i := range n.shards {
		n.shards[i].seed = n.seed
		n.shards[i].retention = s.retention
	}

	s.namespaces[info.ID] = n
	s.sweeper.watch(n)
	return n
}

// active returns the active namespace of that name, or nil.
func (s *store) active(name string) *namespace {
	for _, n := range s.namespaces {
		if n.info.Name == name && n.info.DeletedAt.IsZero() {
			return n
		}
	}
	return nil
}

// NamespaceID returns the ID of the repository's namespace.
func (r *Repository) NamespaceID() string { return r.info.ID }

// Namespace returns a view of another namespace. The error matches
// limiter.ErrNotFound if the namespace is not active.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	if err := r.requireOpen(ctx); err != nil {
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

// Namespaces iterates over the namespaces in any state, by name, then ID.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rules.Sequence(func() ([]limiter.Namespace, error) {
		if err := r.requireOpen(ctx); err != nil {
			return nil, err
		}

		r.store.mu.RLock()
		defer r.store.mu.RUnlock()
		var all []limiter.Namespace
		for _, n := range r.store.namespaces {
			all = append(all, n.info)
		}

		slices.SortFunc(all, func(a, b limiter.Namespace) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		return all, nil
	})
}

// RegisterNamespace returns the active namespace of that name. It creates one if
// there is none.
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
	return n.info, nil
}

// DeleteNamespace deletes a namespace and frees its name. The data stays under
// its ID until it is purged.
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
	n.info.DeletedAt = rules.WholeSecond(now)
	n.inactive.Store(true)
	return nil
}

// RecoverNamespace makes a deleted namespace active again. The error matches
// limiter.ErrNotFound for an unknown ID, limiter.ErrConflict for an active
// namespace, and limiter.ErrExists if another one has the name.
func (r *Repository) RecoverNamespace(ctx context.Context, _ time.Time, id string) (limiter.Namespace, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Namespace{}, err
	}

	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return limiter.Namespace{}, r.store.err
	}

	n := r.store.namespaces[id]
	switch {
	case n == nil:
		return limiter.Namespace{}, fmt.Errorf("namespace ID %q: %w", id, limiter.ErrNotFound)
	case n.info.DeletedAt.IsZero():
		return limiter.Namespace{}, fmt.Errorf("namespace ID %q is active: %w", id, limiter.ErrConflict)
	case r.store.active(n.info.Name) != nil:
		return limiter.Namespace{}, fmt.Errorf("namespace %q: %w", n.info.Name, limiter.ErrExists)
	}

	n.info.DeletedAt = time.Time{}
	n.inactive.Store(false)
	return n.info, nil
}

// PurgeNamespace destroys the data of a deleted namespace. The error matches
// limiter.ErrNotFound for an unknown ID and limiter.ErrConflict for an active
// namespace.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.err != nil {
		return r.store.err
	}

	n := r.store.namespaces[id]
	switch {
	case n == nil:
		return fmt.Errorf("namespace ID %q: %w", id, limiter.ErrNotFound)
	case n.info.DeletedAt.IsZero():
		return fmt.Errorf("namespace ID %q is active: %w", id, limiter.ErrConflict)
	}

	delete(r.store.namespaces, id)
	// Leases may still refer to the namespace. Their credits do nothing once
	// this is set.
	n.purged.Store(true)
	r.store.sweeper.unwatch(n)
	return nil
}
