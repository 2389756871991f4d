// Package dynamo implements a limiter's store in one DynamoDB table. Many
// machines can share the table, and so can Python services that use exactly
// release 0.10.0 of zae-limiter.
//
// A charge is one conditional write of the bucket's item, based on the last
// image of it that this process saw. A refused write returns the stored item,
// and the next decision is based on that. So nothing is admitted that the stored
// state does not cover. Cached entities and limits may lag behind other
// processes by Options.CacheTTL, and cached refusals by up to a second.
package dynamo

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/wire"
)

// Options configures [Connect] and [CreateTable]. The zero value of a field
// means its default.
type Options struct {
	// Namespace is the namespace to use; default: the value of ZAEL_NAMESPACE, or
	// "default". Connect requires that it is registered; CreateTable registers it.
	Namespace string
	// Region and Endpoint override those of AWS. If AWS is nil, the SDK reads its
	// configuration from the environment and files as usual, with an HTTP client
	// tuned for a table in the same region.
	Region, Endpoint string
	AWS              *aws.Config
	// BucketTTL is the number of idle fill times after which a bucket expires;
	// default 7, negative for never. A bucket in debt does not expire, nor does one
	// whose entity has its own limits for the resource.
	BucketTTL int
	// CacheTTL is how long entities and limits are cached, although another
	// process may change them; default 60 s, negative to disable the cache.
	CacheTTL time.Duration
	// Timeout limits one charge, read or ping, including its retries; default 1 s,
	// negative for no limit. Fetching credentials does not count. For listings it
	// limits each page or batch, for changes each request, and only while no data
	// arrive. Credits are bounded by limiter.Options.SettleTimeout instead, and
	// long operations by the timeouts of the HTTP client.
	Timeout time.Duration
	// Exact disables the slack. With slack, a charge may leave the refill time alone
	// although the bucket was full for a moment, so that up to 2 % of the capacity
	// is admitted in excess. With Exact, charges on nearly full buckets that many
	// processes share need more retries.
	Exact bool
	// NoSpeculation makes every charge read the bucket first, instead of writing
	// from the last image.
	NoSpeculation bool
	// NoRejectionMemory sends every charge to the table, even within a second of a
	// refusal that the last image would repeat.
	NoRejectionMemory bool
	// Images is the number of buckets whose last image is kept; default 100,000.
	Images int
	// Purged, if not nil, is called during PurgeNamespace with the number of items
	// removed so far. Calls do not overlap, and the purge waits for each.
	Purged func(items int)
	// PurgeWait is how long after its start a purge looks once more for data, to
	// find writes that were in flight; default 10 s, or twice Timeout if that is
	// longer. If negative, the purge does not wait.
	PurgeWait time.Duration
	// SwitchWait is how long SetSwitch of an entity looks for buckets that calls on
	// their way create, counted from the last one that it found; default: Timeout,
	// or 1 s if that is negative. If negative, SetSwitch does not wait.
	SwitchWait time.Duration
	// ClockGuard is how far the machine's clock may be off before charges, credits
	// and reads use the table's time instead, which the dates of replies show;
	// default 2 s, negative to correct nothing. A time that differs from the
	// machine's clock, as simulations pass, is never corrected. After the clock was
	// set or the machine has slept, a call first waits for the date of one read.
	ClockGuard time.Duration
	// CountCapacity asks the table for the capacity units of each call and adds
	// them up in Stats.
	CountCapacity bool
	// LeanIndex makes CreateTable create an index by resource that holds keys only,
	// so that a write of a bucket costs one write unit instead of two. Listings of a
	// resource then also read the items by key. Python clients find no buckets and no
	// usage of a resource in such a table. Connect recognizes it by itself.
	LeanIndex bool
}

// Repository gives access to one namespace of a table. It is safe for concurrent
// use.
type Repository struct {
	*store
	ns, name string
	view     bool // Close does nothing
}

var _ limiter.Repository = (*Repository)(nil)

// store holds what all views of a table share.
type store struct {
	// The configuration of all clients.
	config aws.Config
	// Retries: for reads, and for writes that are safe to repeat.
	client *dynamodb.Client
	// Retries with longer pauses: for long operations.
	slow *dynamodb.Client
	// Does not retry: for charges and credits.
	once *dynamodb.Client
	// Sends the updates of once for less CPU time; nil if the SDK has to.
	wire   *wire.Client
	table  string
	ttl    int
	opts   Options
	closed atomic.Bool
	cache  *cache
	// Levels of entities, for pages. Charges do not rely on it.
	listed *cache
	images *images
	// Namespace ID to the limiter.OnUnavailable last seen.
	modes sync.Map
	seen  *seenSwitches
	clock func() time.Time // of the machine
	begun time.Time        // when the steady clock began

	tableClock tableClock
	dates      dateRequests

	identity identity

	rejections, dropped atomic.Int64
	requests            atomic.Int64
	used                usedCapacity
	purgedMu            sync.Mutex // held while Purged is called
	// Keeps runInBackground from starting work once Close waits.
	closeMu    sync.Mutex
	background sync.WaitGroup // work that runInBackground started
}

// Stats holds counters since Connect, summed over all views of the table.
type Stats struct {
	CacheHits, CacheMisses int64 // lookups of cached records, and those that had to read
	CacheSize              int64 // records in the cache
	LocalRejections        int64 // refusals without a request
	// CreditsDropped counts credits that were lost because the outcome of a write
	// stayed unknown, or because the bucket kept changing.
	CreditsDropped int64
	Requests       int64 // requests sent to the table, retries included
	// ClockOffset is how far the table's time is ahead of the machine's, by the
	// dates of replies, within plus or minus ClockMargin. Both are 0 unless
	// ClockKnown is set.
	ClockOffset, ClockMargin time.Duration
	ClockKnown               bool // two dates that differ agree about the offset
	ClockCorrected           bool // the last call used the table's time
	// ReadUnits and WriteUnits are the capacity units of all calls that the table
	// answered, and 0 without Options.CountCapacity. A refused conditional write
	// counts as one unit, since the table does not report it.
	ReadUnits, WriteUnits float64
}

// Stats returns the current counters.
func (r *Repository) Stats() Stats {
	reads, writes := r.used.units()
	offset, margin, known := r.tableClock.estimate(r.clocks())

	return Stats{
		ClockOffset: offset, ClockMargin: margin, ClockKnown: known, ClockCorrected: r.tableClock.inForce.Load() != 0,
		Requests: r.requests.Load(), ReadUnits: reads, WriteUnits: writes,
		CacheHits: r.cache.hits.Load(), CacheMisses: r.cache.misses.Load(), CacheSize: r.cache.size(),
		LocalRejections: r.rejections.Load(), CreditsDropped: r.dropped.Load(),
	}
}

// Forget drops all cached records, images and refusals, so that the next calls
// read the table.
func (r *Repository) Forget() {
	r.cache.clear()
	r.listed.clear()
	r.images.clear()
}

// NamespaceID returns the ID of the repository's namespace.
func (r *Repository) NamespaceID() string { return r.ns }

// Ping checks that the table is reachable.
func (r *Repository) Ping(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	_, err := r.get(ctx, versionKey())
	return err
}

// Close closes the repository and all its views. It waits for credits whose
// callers timed out. On a view, Close does nothing.
func (r *Repository) Close() error {
	if !r.view {
		r.closeMu.Lock()
		r.closed.Store(true)
		r.closeMu.Unlock()
		r.background.Wait()
	}
	return nil
}

// runInBackground runs work in a goroutine that Close waits for. If the store is
// closed, it returns false and runs nothing.
func (s *store) runInBackground(work func()) bool {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.closed.Load() {
		return false
	}
	s.background.Go(work)
	return true
}

// ready returns an error if ctx is done or the store is closed.
func (s *store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return limiter.ErrClosed
	}
	return nil
}

// requireNamespace does what ready does, and rejects the reserved namespace,
// which holds no data.
func (r *Repository) requireNamespace(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if r.ns == reservedNamespace {
		return errReserved
	}
	return nil
}

var errReserved = fmt.Errorf(
	"namespace %q: %w; it is reserved for the table itself and holds no data, so choose another",
	reservedNamespace, limiter.ErrNotFound,
)

// requireActive does what requireNamespace does, and checks that the namespace
// is active as far as the cache knows.
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

// requireActiveNow does what requireActive does, but bypasses the cache: what is
// stored in a namespace that another process has purged would never be removed.
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

// namespaceError returns an error if the namespace is not active.
func (r *Repository) namespaceError(f *fact) error {
	if f.active {
		return nil
	}
	return fmt.Errorf("namespace %q: %w", r.name, limiter.ErrNotFound)
}

// Statistics iterates over the values of Stats. It yields billed units only with
// Options.CountCapacity.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] {
	s := r.Stats()
	total := func(name, unit, description string, value float64) limiter.Statistic {
		return limiter.Statistic{Name: name, Unit: unit, Description: description, Total: true, Value: value}
	}

	// A gauge of 0 would say that the clock is right.
	offset := math.NaN()
	if s.ClockKnown {
		offset = s.ClockOffset.Seconds()
	}

	all := []limiter.Statistic{
		total("store.requests", "{request}", "Requests to the table, retries included", float64(s.Requests)),
		total("store.cache.hits", "{lookup}", "Lookups of records that the cache answered", float64(s.CacheHits)),
		total("store.cache.misses", "{lookup}", "Lookups of records that read the table", float64(s.CacheMisses)),
		{
			Name: "store.cache.records", Unit: "{record}", Description: "Records in the cache",
			Value: float64(s.CacheSize),
		},
		total("store.local_refusals", "{refusal}", "Refusals without a request", float64(s.LocalRejections)),
		total("store.dropped_credits", "{credit}",
			"Credits lost because the outcome of a write stayed unknown or the bucket kept changing",
			float64(s.CreditsDropped)),
		{
			Name: "store.clock.offset", Unit: "s",
			Description: "How far the table's time is ahead of the machine's", Value: offset,
		},
	}

	if r.opts.CountCapacity {
		all = append(all,
			total("store.billed_reads", "{unit}", "Read units that the table billed", s.ReadUnits),
			total("store.billed_writes", "{unit}", "Write units that the table billed", s.WriteUnits))
	}
	return slices.Values(all)
}
