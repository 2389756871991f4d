package dynamo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cache keeps facts for a while. For each key, one caller reads and the others
// wait for the result. If a fact is evicted during its read, the result is not
// kept. A stale fact serves while it cannot be read again.
type cache struct {
	life    time.Duration
	maxSize int

	mu           sync.Mutex
	slots        map[factKey]*slot
	evictions    uint64 // calls of evict and evictIf
	hits, misses atomic.Int64
}

// slot holds one fact: what was last read, when, and the running read.
type slot struct {
	fact   *fact
	read   moment
	failed time.Time // of the last read that failed
	flight *flight
}

// usable reports whether the fact needs no read: it is younger than life, or its
// last read failed so recently that this caller need not wait for another.
func (s *slot) usable(life time.Duration, at moment) bool {
	if s == nil || s.fact == nil {
		return false
	}
	return !s.read.olderThan(life, at) || life > 0 && at.clock.Sub(s.failed) < failedReadLife
}

// failedReadLife is how long a stale fact is used after a read of it failed.
const failedReadLife = time.Second

// flight is a running read of one fact. Its results are valid once done is
// closed.
type flight struct {
	done chan struct{}
	fact *fact
	err  error
	// Its reader gave up or panicked.
	abandoned bool
}

// errAbandoned is returned to callers that waited for an abandoned read. They
// try again.
var errAbandoned = errors.New("the reader gave up")

// moment is a time by the clocks of this machine and of the caller, which may
// differ. A record is old if it is old by either.
type moment struct {
	clock time.Time
	now   int64
	// What now adds to the machine's clock, if the caller agrees with that.
	correction int64
}

// olderThan reports whether m lies life or more before other.
func (m moment) olderThan(life time.Duration, other moment) bool {
	return other.clock.Sub(m.clock) >= life || m.now != 0 && other.now-m.now >= life.Milliseconds()
}

// newCache returns a cache that keeps up to maxSize facts for life.
func newCache(life time.Duration, maxSize int) *cache {
	return &cache{life: life, maxSize: maxSize, slots: map[factKey]*slot{}}
}

// lookup returns the facts of keys, in their order. One call of read reads those
// that are missing or older than life; a life of 0 reads all. lookup reports as
// fresh whether this call has read all of them.
func (c *cache) lookup(
	ctx context.Context, at moment, life time.Duration, keys []factKey, read func([]factKey) ([]*fact, error),
) (facts []*fact, fresh bool, err error) {
	for {
		facts = make([]*fact, len(keys))
		own, waits := c.split(at, min(life, c.life), keys, facts)
		c.readOwn(ctx, at, keys, own, facts, read)
		stale, err := c.collect(ctx, life > 0, keys, own, waits, facts)
		if err == nil {
			return facts, len(own) == len(keys) && !stale, nil
		}

		// If a reader gives up, another caller that waits has to read by
		// itself.
		if !errors.Is(err, errAbandoned) {
			return nil, false, err
		}
	}
}

// has reports whether a lookup would read nothing.
func (c *cache) has(at moment, life time.Duration, keys []factKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(keys, func(k factKey) bool { return !c.slots[k].usable(min(life, c.life), at) })
}

// recent returns a fact no older than life, or nil if none is cached.
func (c *cache) recent(at moment, life time.Duration, k factKey) *fact {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[k]; s != nil && s.fact != nil && !s.read.olderThan(min(life, c.life), at) {
		return s.fact
	}
	return nil
}

// stale returns a cached fact of any age, or nil.
func (c *cache) stale(k factKey) *fact {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[k]; s != nil {
		return s.fact
	}
	return nil
}

// split fills in the cached facts. For the others it returns flights by the index
// in keys: own are the reads that this caller has to make, and waits are running
// reads of other callers that it waits for.
func (c *cache) split(at moment, life time.Duration, keys []factKey, facts []*fact) (own, waits map[int]*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range keys {
		s := c.slots[k]
		if s.usable(life, at) {
			c.hits.Add(1)
			facts[i] = s.fact

			// A call without a time, such as SetConfig, has read it. It ages
			// from the first call that has one.
			if s.read.now == 0 {
				s.read.now = at.now
			}
			continue
		}

		c.misses.Add(1)
		if s == nil {
			c.shrink()
			s = &slot{}
			c.slots[k] = s
		}

		// With a life of 0, only a read that begins after this call is good
		// enough.
		if s.flight != nil && life > 0 {
			waits = withFlight(waits, i, s.flight)
			continue
		}

		s.flight = &flight{done: make(chan struct{})}
		own = withFlight(own, i, s.flight)
	}
	return own, waits
}

// withFlight sets flights[i]. Most calls find every fact in the cache and need no
// map, so flights is nil until then.
func withFlight(flights map[int]*flight, i int, f *flight) map[int]*flight {
	if flights == nil {
		flights = map[int]*flight{}
	}
	flights[i] = f
	return flights
}

// shrink makes room for one more slot.
func (c *cache) shrink() {
	for k, s := range c.slots {
		if len(c.slots) < c.maxSize {
			return
		}

		// Other callers find the running read by its slot.
		if s.flight == nil {
			delete(c.slots, k)
		}
	}
}

// readOwn makes the reads that split left to this caller. If a fact is evicted
// meanwhile, the result serves this caller and those that wait for it, and is
// not kept.
func (c *cache) readOwn(
	ctx context.Context, at moment, keys []factKey, own map[int]*flight, facts []*fact,
	read func([]factKey) ([]*fact, error),
) {
	if len(own) == 0 {
		return
	}

	var wanted []factKey
	var order []int
	for i := range keys {
		if own[i] != nil {
			wanted, order = append(wanted, keys[i]), append(order, i)
		}
	}

	var got []*fact

	// If read panics, the callers that wait must not wait forever.
	err := errAbandoned
	defer func() { c.land(ctx, at, keys, own, facts, order, got, err) }()
	got, err = read(wanted)
}

// land passes the facts or the error of a read to the callers that wait, and
// keeps the facts.
func (c *cache) land(
	ctx context.Context, at moment, keys []factKey, own map[int]*flight, facts []*fact, order []int,
	got []*fact, err error,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, i := range order {
		f := own[i]

		// A caller that gave up says nothing about the table, so the others try
		// again.
		f.err, f.abandoned = err, err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled) ||
			errors.Is(err, errAbandoned))
		if err == nil {
			f.fact, facts[i] = got[n], got[n]
		}

		if s := c.slots[keys[i]]; s != nil && s.flight == f {
			s.flight = nil
			if err == nil {
				s.fact, s.read, s.failed = f.fact, at, time.Time{}
			} else if !f.abandoned || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				// If the reader's deadline passed, the next caller may have as
				// little time. It gets the stale fact for a moment.
				s.failed = time.Now()
			}

			// A slot without a fact served only to find the running read.
			if c.life <= 0 || s.fact == nil {
				delete(c.slots, keys[i])
			}
		}

		close(f.done)
	}
}

// collect waits for the reads of other callers. Where a read failed it uses the
// stale fact, if allowStale is set, and reports that it did.
func (c *cache) collect(
	ctx context.Context, allowStale bool, keys []factKey, own, waits map[int]*flight, facts []*fact,
) (stale bool, err error) {
	for i, f := range waits {
		select {
		case <-f.done:
			facts[i] = f.fact
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range keys {
		if facts[i] != nil {
			continue
		}

		if s := c.slots[keys[i]]; s != nil && s.fact != nil && allowStale {
			facts[i], stale = s.fact, true
			continue
		}

		if f := own[i]; f != nil {
			return false, f.err
		}
		if waits[i].abandoned {
			return false, errAbandoned
		}
		return false, waits[i].err
	}
	return stale, nil
}

// evict removes facts, and keeps no result of running reads of them.
func (c *cache) evict(keys ...factKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictions++
	for _, k := range keys {
		delete(c.slots, k)
	}
}

// evictIf removes the facts whose keys match.
func (c *cache) evictIf(match func(factKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictions++
	for k := range c.slots {
		if match(k) {
			delete(c.slots, k)
		}
	}
}

// evictionCount returns how often facts were evicted.
func (c *cache) evictionCount() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evictions
}

// put keeps facts that were read at a moment by other means. It does nothing if
// facts were evicted since, which these may be older than.
func (c *cache) put(at moment, facts levels, evictions uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evictions != evictions || c.life <= 0 {
		return
	}
	for k, f := range facts {
		s := c.slots[k]
		if s == nil {
			c.shrink()
			s = &slot{}
			c.slots[k] = s
		}

		s.fact, s.read, s.failed = f, at, time.Time{}
	}
}

// clear removes all facts.
func (c *cache) clear() { c.evictIf(func(factKey) bool { return true }) }

// size returns how many facts are kept.
func (c *cache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.slots))
}
