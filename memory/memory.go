// Package memory is a limiter's store inside one process: the reference for
// what a store means, and the fastest. Nothing survives the process.
//
// Buckets that have idled and usage past its retention are forgotten by the
// calls that come after, a part each, whatever those calls are about, and their
// memory comes back. There is no goroutine.
//
// All callers share the clock of the machine. A bucket that a clock far ahead
// has charged refills from that time on. But a call whose time agrees with the
// machine's, to two seconds, does not wait for a time that was never true: to it,
// the bucket is ahead by its longest fill time at most. That pays back all that
// the jump can have minted, and it begins with the first such call that writes.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Options are those of [New]. The zero value of a field is its default.
type Options struct {
	// Namespace is registered on the spot; default "default". If the name is
	// not valid, every call of the repository says so.
	Namespace string
	// BucketTTL is after how many idle fill times a bucket is forgotten; default
	// 7, negative for never. Buckets in debt stay, and so do those of entities
	// with limits of their own for the resource.
	BucketTTL int
	// UsageRetention is how long usage snapshots are kept; default
	// DefaultRetention. An entity that is always busy has 24 of them a day.
	UsageRetention time.Duration
}

// Repository is the store seen from one namespace. It is safe for concurrent
// use.
type Repository struct {
	store *store
	*namespace
	view bool
}

var _ limiter.Repository = (*Repository)(nil)

// store is what all namespaces share.
type store struct {
	mu        sync.RWMutex
	spaces    map[string]*namespace // by id, in any state
	ttl       int
	retention time.Duration
	machine   rules.Machine
	sweeper   sweeper
	err       error // what every call returns: bad options, or closed
}

// New makes an empty store. It never fails.
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
	s := &store{spaces: map[string]*namespace{}, ttl: rules.Multiplier(o.BucketTTL), retention: o.UsageRetention}
	s.err = limiter.Namespace{Name: o.Namespace}.Validate()
	return &Repository{store: s, namespace: s.add(limiter.Namespace{Name: o.Namespace, CreatedAt: rules.WholeSecond(time.Now())})}
}

// Ping is nil until the repository is closed.
func (r *Repository) Ping(ctx context.Context) error { return r.ready(ctx) }

// Close ends the repository and every view of it. A view's Close does nothing.
func (r *Repository) Close() error {
	if r.view {
		return nil
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.store.err = limiter.ErrClosed
	for _, n := range r.store.spaces {
		n.unusable.Store(true)
	}
	return nil
}

// ready is why a call cannot begin: its context has ended, or the store.
func (r *Repository) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.store.mu.RLock()
	defer r.store.mu.RUnlock()
	return r.store.err
}

// usable is ready for a call that needs the namespace to be active.
func (r *Repository) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.unusable.Load() {
		return nil
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	return fmt.Errorf("namespace %q: %w", r.space.Name, limiter.ErrNotFound)
}
