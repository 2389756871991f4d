// Package memory implements a limiter's store in memory, for one process. It is
// the reference implementation of a store, and the fastest. All data is lost when
// the process ends.
//
// Later calls remove expired buckets and old usage in small steps and free their
// memory. The package starts no goroutine.
//
// All callers share the clock of the machine. If a caller with a wrong clock
// charges a bucket far in the future, the bucket does not refill until that time.
// The store corrects this for callers whose time is within two seconds of the
// machine's: their next write moves the bucket back, so that it waits at most its
// longest fill time. That wait makes up for the tokens that the jump created.
package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Options configures [New]. A zero field means its default.
type Options struct {
	// Namespace is the namespace to register and use. The default is "default".
	// If the name is invalid, every call returns the error.
	Namespace string
	// BucketTTL is the number of fill times after which an idle bucket expires.
	// The default is 7; a negative value means never. Buckets in debt do not
	// expire, nor do buckets whose entity has its own limits for the resource.
	BucketTTL int
	// UsageRetention is how long usage snapshots are kept. The default is
	// DefaultRetention. A busy entity adds 24 hourly snapshots a day for each resource.
	UsageRetention time.Duration
}

// Repository is a view of the store on one namespace. It is safe for concurrent
// use.
type Repository struct {
	store *store
	*namespace
	view bool
}

var _ limiter.Repository = (*Repository)(nil)

// store holds what all namespaces share.
type store struct {
	mu         sync.RWMutex
	namespaces map[string]*namespace // by ID, in any state
	ttl        int
	retention  time.Duration
	machine    rules.Machine
	sweeper    sweeper
	err        error // returned by every call: invalid options, or closed
}

// New returns an empty store.
func New(opts *Options) *Repository {
	var o Options
	if opts != nil {
		o = *opts
	}

	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.UsageRetention <= 0 {
		o.UsageRetention = DefaultRetention
	}

	s := &store{namespaces: map[string]*namespace{}, ttl: rules.Multiplier(o.BucketTTL), retention: o.UsageRetention}
	// New returns no error, so every call returns that of the options.
	s.err = limiter.Namespace{Name: o.Namespace}.Validate()

	return &Repository{
		store:     s,
		namespace: s.add(limiter.Namespace{Name: o.Namespace, CreatedAt: rules.WholeSecond(time.Now())}),
	}
}

// Ping returns nil until the repository is closed.
func (r *Repository) Ping(ctx context.Context) error { return r.requireOpen(ctx) }

// Close closes the repository and every view of it. Later calls return
// limiter.ErrClosed. Close of a view does nothing.
func (r *Repository) Close() error {
	if r.view {
		return nil
	}

	r.store.mu.Lock()
	defer r.store.mu.Unlock()

	r.store.err = limiter.ErrClosed
	// Calls read the error of the store only if this flag is set.
	for _, n := range r.store.namespaces {
		n.inactive.Store(true)
	}
	return nil
}

// requireOpen returns an error if the context has ended or the store is closed.
func (r *Repository) requireOpen(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.store.mu.RLock()
	defer r.store.mu.RUnlock()
	return r.store.err
}

// requireActive checks what requireOpen does, and that the namespace is active.
func (r *Repository) requireActive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The flag spares each call the lock of the store.
	if !r.inactive.Load() {
		return nil
	}

	if err := r.requireOpen(ctx); err != nil {
		return err
	}
	return fmt.Errorf("namespace %q: %w", r.info.Name, limiter.ErrNotFound)
}

// Statistics yields the number of buckets in memory.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	return slices.Values([]limiter.Statistic{
		{
			Name: "store.buckets", Unit: "{bucket}", Description: "Buckets in memory",
			Value: float64(r.store.countBuckets()),
		},
	})
}

// countBuckets counts the buckets of all namespaces.
func (s *store) countBuckets() (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, namespace := range s.namespaces {
		for i := range namespace.shards {
			shard := &namespace.shards[i]
			shard.mu.Lock()
			n += shard.buckets.nodes
			shard.mu.Unlock()
		}
	}
	return n
}
