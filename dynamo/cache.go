package dynamo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// cache keeps facts for a while. For each key one caller reads and the others
// wait for it; what an eviction overtook is not kept; what has become old is
// used while it cannot be read again.
type cache struct {
	life time.Duration
	most int

	mu           sync.Mutex
	slots        map[factKey]*slot
	hits, misses atomic.Int64
}

// slot is one fact: what was last read, when, and who is reading it now.
type slot struct {
	fact   *fact
	read   moment
	failed time.Time // when it could last not be read again
	flight *flight
}

// usable tells whether the fact will do: it is not too old, or it could not be
// read again a moment ago, and not everybody has to find that out by waiting.
func (s *slot) requireActive(life time.Duration, at moment) bool {
	if s == nil || s.fact == nil {
		return false
	}
	return !s.read.olderThan(life, at) || life > 0 && at.clock.Sub(s.failed) < failedReadLife
}

// failedReadLife is for how long facts that could not be read again are not
// asked for.
const failedReadLife = time.Second

// flight is a read under way. Its results may be used once done is closed.
type flight struct {
	done      chan struct{}
	fact      *fact
	err       error
	abandoned bool // its reader's time was up, or it panicked
}

// errAbandoned is for whoever waited for such a flight: there is no reason to
// give up too.
var errAbandoned = errors.New("whoever was reading gave up")

// moment is when something was learned: by this machine's clock, and by the
// caller's, which may be another. Old by either is old.
type moment struct {
	clock time.Time
	now   int64
}

func (m moment) olderThan(life time.Duration, other moment) bool {
	return other.clock.Sub(m.clock) >= life || m.now != 0 && other.now-m.now >= life.Milliseconds()
}

func newCache(life time.Duration, most int) *cache {
	return &cache{life: life, most: most, slots: map[factKey]*slot{}}
}

// lookup is the facts of keys, in their order. Those that are not known, or
// older than life, are read by one call of read; a life of 0 reads all. It
// tells whether all were read by this call.
func (c *cache) lookup(ctx context.Context, at moment, life time.Duration, keys []factKey, read func([]factKey) ([]*fact, error)) (facts []*fact, fresh bool, err error) {
	for {
		facts = make([]*fact, len(keys))
		own, waits := c.begin(at, min(life, c.life), keys, facts)
		c.finish(ctx, at, keys, own, facts, read)
		old, err := c.collect(ctx, life > 0, keys, own, waits, facts)
		if err == nil {
			return facts, len(own) == len(keys) && !old, nil
		}
		if !errors.Is(err, errAbandoned) {
			return nil, false, err
		}
	}
}

// begin finds what is known, and takes on what nobody is reading.
func (c *cache) begin(at moment, life time.Duration, keys []factKey, facts []*fact) (own, waits map[int]*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range keys {
		s := c.slots[k]
		if s.requireActive(life, at) {
			c.hits.Add(1)
			facts[i] = s.fact
			if s.read.now == 0 { // it was read by a call without a time, such as SetConfig: it ages from the first that has one
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
		if s.flight != nil && life > 0 {
			waits = with(waits, i, s.flight)
			continue
		}
		s.flight = &flight{done: make(chan struct{})}
		own = with(own, i, s.flight)
	}
	return own, waits
}

func with(flights map[int]*flight, i int, f *flight) map[int]*flight {
	if flights == nil {
		flights = map[int]*flight{}
	}
	flights[i] = f
	return flights
}

// shrink makes room for one more.
func (c *cache) shrink() {
	for k, s := range c.slots {
		if len(c.slots) < c.most {
			return
		}
		if s.flight == nil {
			delete(c.slots, k)
		}
	}
}

// finish reads what this caller took on. An eviction since then has taken the
// flight out of its slot: the result is this caller's, but it is not kept.
func (c *cache) finish(ctx context.Context, at moment, keys []factKey, own map[int]*flight, facts []*fact, read func([]factKey) ([]*fact, error)) {
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
	err := errAbandoned // unless read returns
	defer func() { c.land(ctx, at, keys, own, facts, order, got, err) }()
	got, err = read(wanted)
}

// land ends the flights of a read, whatever became of it.
func (c *cache) land(ctx context.Context, at moment, keys []factKey, own map[int]*flight, facts []*fact, order []int, got []*fact, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, i := range order {
		f := own[i]
		f.err, f.abandoned = err, err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, errAbandoned))
		if err == nil {
			f.fact, facts[i] = got[n], got[n]
		}
		if s := c.slots[keys[i]]; s != nil && s.flight == f {
			s.flight = nil
			if err == nil {
				s.fact, s.read, s.failed = f.fact, at, time.Time{}
			} else if !f.abandoned || errors.Is(ctx.Err(), context.DeadlineExceeded) { // the next caller may have as little time
				s.failed = time.Now()
			}
			if c.life <= 0 || s.fact == nil {
				delete(c.slots, keys[i])
			}
		}
		close(f.done)
	}
}

// collect waits for what others read, and falls back to what was known before,
// if that will do, where reading failed.
func (c *cache) collect(ctx context.Context, oldWillDo bool, keys []factKey, own, waits map[int]*flight, facts []*fact) (old bool, err error) {
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
		if s := c.slots[keys[i]]; s != nil && s.fact != nil && oldWillDo {
			facts[i], old = s.fact, true
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
	return old, nil
}

// evict forgets facts, and what is being read about them.
func (c *cache) evict(keys ...factKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		delete(c.slots, k)
	}
}

// evictIf forgets the facts whose keys match.
func (c *cache) evictIf(match func(factKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.slots {
		if match(k) {
			delete(c.slots, k)
		}
	}
}

func (c *cache) clear() { c.evictIf(func(factKey) bool { return true }) }

func (c *cache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.slots))
}
