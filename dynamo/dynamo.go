// Package dynamo is a limiter's store in one DynamoDB table, shared by many
// machines, and with Python services that use zae-limiter 0.10.x.
//
// A charge is one conditional write of the bucket's item, made from the last
// image of it this process saw; a refusal brings the item as it is, and the
// next decision is made from that. Nothing is admitted that the stored state
// does not cover: what may lag behind other processes, by Options.CacheTTL, are
// facts about entities and limits, and refusals, by up to a second.
package dynamo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
)

// Options are those of [Connect] and [CreateTable]. The zero value of a field
// is its default.
type Options struct {
	Namespace string // default "default"; it must have been registered
	// Region and Endpoint win over those of AWS. A nil AWS is read from the
	// environment and files in the usual way, with an HTTP client tuned for a
	// table in the same region.
	Region, Endpoint string
	AWS              *aws.Config
	// BucketTTL is after how many idle fill times a bucket may be removed;
	// default 7, negative for never. Buckets in debt stay, and so do those of
	// entities with limits of their own for the resource.
	BucketTTL int
	// CacheTTL is how long facts about entities and limits are believed that
	// another process may have changed; default 60 s, negative for no time.
	CacheTTL time.Duration
	// Timeout is the most that one charge, read or ping may take in all, with its
	// retries; default 1 s, negative for none. Fetching credentials does not
	// count. Listings have it for each page and changes for each request, counted
	// while nothing comes. A give-back has the time of its settlement instead, and
	// long operations wait as long as the HTTP client does.
	Timeout time.Duration
	// Exact makes no use of the slack, 2 % of the capacity, within which a charge
	// from an image that others made old is still admitted: that costs second
	// tries on buckets that many processes share and that are nearly full.
	Exact bool
	// NoSpeculation reads the bucket before every charge instead of writing from
	// the last image of it.
	NoSpeculation bool
	// NoRejectionMemory asks the table about every charge, also within a second
	// of a refusal that the last image would repeat.
	NoRejectionMemory bool
	// Images is of how many buckets the last image is kept; default 100,000.
	Images int
	// Purged is called while PurgeNamespace works, with how many items it has
	// removed so far; from one goroutine at a time. The purge waits for it.
	Purged func(items int)
	// PurgeWait is how long after its beginning a purge looks for data once more,
	// that were on their way when it began; default twice the longest time that a
	// request may take, so 10 s or twice Timeout. Negative is at once.
	PurgeWait time.Duration
}

// Repository is the table seen from one namespace. It is safe for concurrent
// use.
type Repository struct {
	*store
	ns, name string
	view     bool
}

var _ limiter.Repository = (*Repository)(nil)

// store is what all views of a table share.
type store struct {
	config aws.Config       // of all clients
	client *dynamodb.Client // retries by itself: reads, and writes that may be repeated
	slow   *dynamodb.Client // client with more time between its tries, for long operations
	once   *dynamodb.Client // sends once: charges and credits
	table  string
	ttl    int
	opts   Options
	closed atomic.Bool
	cache  *cache
	images *images
	modes  sync.Map         // namespace ID to the limiter.OnUnavailable last seen
	clock  func() time.Time // measures ages only; what a bucket holds depends on the caller's time

	identity identity

	rejections, dropped atomic.Int64
	telling             sync.Mutex     // held while Purged is called
	ending              sync.Mutex     // so that nothing is detached once Close waits
	background          sync.WaitGroup // give-backs whose callers did not wait
}

// Stats are counters since Connect, of all views together.
type Stats struct {
	CacheHits, CacheMisses int64 // facts found in the cache, or read
	CacheSize              int64 // facts kept now
	LocalRejections        int64 // refusals that asked nobody
	CreditsDropped         int64 // give-backs lost, because a write's fate stayed unknown or others kept changing the bucket
}

// Stats are the counters so far.
func (r *Repository) Stats() Stats {
	return Stats{
		CacheHits: r.cache.hits.Load(), CacheMisses: r.cache.misses.Load(), CacheSize: r.cache.size(),
		LocalRejections: r.rejections.Load(), CreditsDropped: r.dropped.Load(),
	}
}

// Forget drops everything remembered: facts, images and refusals. The next
// calls read what is stored.
func (r *Repository) Forget() {
	r.cache.clear()
	r.images.clear()
}

// NamespaceID is the one the repository looks at.
func (r *Repository) NamespaceID() string { return r.ns }

// Ping is nil when the table answers.
func (r *Repository) Ping(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	_, err := r.get(ctx, versionKey())
	return err
}

// Close ends the repository and every view of it, once what is being given back
// for callers whose time was up is through. A view's Close does nothing.
func (r *Repository) Close() error {
	if !r.view {
		r.ending.Lock()
		r.closed.Store(true)
		r.ending.Unlock()
		r.background.Wait()
	}
	return nil
}

// detach runs work that nobody waits for but Close, after which it refuses.
func (s *store) detach(work func()) bool {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.closed.Load() {
		return false
	}
	s.background.Go(work)
	return true
}

// ready is why a call cannot begin: its context has ended, or the store.
func (s *store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return limiter.ErrClosed
	}
	return nil
}

// inhabited is ready for a call about data, of which the table itself has none.
func (r *Repository) requireNamespace(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if r.ns == reservedNamespace {
		return errReserved
	}
	return nil
}

// errReserved says that there is nothing to be had in the reserved namespace.
var errReserved = fmt.Errorf("namespace %q: %w; it is reserved for the table itself and holds no data, so choose another", reservedNamespace, limiter.ErrNotFound)

// usable is inhabited for a call that needs the namespace to be active, as far
// as is known.
func (r *Repository) requireActive(ctx context.Context) error {
	if err := r.requireNamespace(ctx); err != nil {
		return err
	}
	f, err := r.facts(ctx, 0, r.namespaceFact())
	if err != nil {
		return err
	}
	return r.namespaceError(f[0])
}

// changeable is usable as of now: what people store must not end up in a
// namespace that another process is purging, where no purge would find it.
func (r *Repository) requireActiveNow(ctx context.Context, at time.Time) error {
	if err := r.requireNamespace(ctx); err != nil {
		return err
	}
	f, _, err := r.lookup(ctx, at.UnixMilli(), 0, []factKey{r.namespaceFact()})
	if err != nil {
		return err
	}
	return r.namespaceError(f[0])
}

// namespaceError is why the namespace cannot be used, or nil.
func (r *Repository) namespaceError(f *fact) error {
	if f.active {
		return nil
	}
	return fmt.Errorf("namespace %q: %w", r.name, limiter.ErrNotFound)
}
