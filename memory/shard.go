package memory

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// shard holds the buckets and usage of some entities: all that an entity has is
// in one shard.
type shard struct {
	mu      sync.Mutex
	buckets map[string]*entry // by entity, the first of a list
	usage   map[limiter.Scope]history
	deleted map[string]deletion // by entity
	horizon exact.Horizon
	sweepAt int64 // when to look for what expired again

	retention time.Duration // of usage
	_         [64]byte
}

// entry is a bucket in memory, and the Ref of its accounts.
type entry struct {
	exact.Bucket
	facts   uint64 // the namespace's when limits and parent were looked up, 0 = never
	cascade bool
	next    *entry // of the same entity
	number  uint64 // in order of creation
	swept   bool   // expired and removed; a lease may still refer to it
}

// deletion says that an entity's buckets up to a number were deleted, and did
// not just expire: what leases still have to do with them is void.
type deletion struct {
	last uint64
	at   int64
}

const sweepEvery = 60 * 1000 // milliseconds of the callers' time

func (n *namespace) index(entity string) int {
	return int(maphash.String(n.seed, entity) % uint64(len(n.shards)))
}

func (n *namespace) shard(entity string) *shard { return &n.shards[n.index(entity)] }

// lockPair locks the shards of two entities in ascending order. An empty second
// entity is none.
func (n *namespace) lockPair(first, second string) (unlock func()) {
	a := n.index(first)
	b := a
	if second != "" {
		b = n.index(second)
	}
	if a == b {
		n.shards[a].mu.Lock()
		return n.shards[a].mu.Unlock
	}
	n.shards[min(a, b)].mu.Lock()
	n.shards[max(a, b)].mu.Lock()
	return func() {
		n.shards[a].mu.Unlock()
		n.shards[b].mu.Unlock()
	}
}

// get is the bucket at a key, nil if there is none.
func (s *shard) get(key limiter.Scope) *entry {
	e := s.buckets[key.Entity]
	for e != nil && e.Account.Resource != key.Resource {
		e = e.next
	}
	return e
}

// live is get without a bucket that has expired.
func (s *shard) live(key limiter.Scope, now int64) *entry {
	if e := s.get(key); e != nil && !e.Gone(now) {
		return e
	}
	return nil
}

// put adds a bucket in the place of one that has expired, if there is one.
func (s *shard) put(e *entry) {
	if old := s.get(keyOf(e)); old != nil {
		s.expire(old)
	}
	e.next = s.buckets[e.Account.Entity]
	s.buckets[e.Account.Entity] = e
}

// expire forgets a bucket; its usage stays.
func (s *shard) expire(e *entry) {
	_ = e.Flush(s.book) // the book of this store does not fail
	e.swept = true
	entity := e.Account.Entity
	if s.buckets[entity] == e {
		if s.buckets[entity] = e.next; e.next == nil {
			delete(s.buckets, entity)
		}
		return
	}
	for before := s.buckets[entity]; before != nil; before = before.next {
		if before.next == e {
			before.next = e.next
		}
	}
}

// each ranges over the buckets of an entity, a resource, both, or all. The one
// at hand may be expired.
func (s *shard) each(of limiter.Scope) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		list := func(e *entry) bool {
			for e != nil {
				next := e.next
				if (of.Resource == "" || e.Account.Resource == of.Resource) && !yield(e) {
					return false
				}
				e = next
			}
			return true
		}
		if of.Entity != "" {
			list(s.buckets[of.Entity])
			return
		}
		for _, first := range s.buckets {
			if !list(first) {
				return
			}
		}
	}
}

func keyOf(e *entry) limiter.Scope {
	return limiter.Scope{Entity: e.Account.Entity, Resource: e.Account.Resource}
}

// drop removes buckets and usage of an entity, and counts them.
func (s *shard) drop(entity string, d deletion) (records int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.each(limiter.Scope{Entity: entity}) {
		s.expire(e)
		records++
	}
	for key, snapshots := range s.usage {
		if key.Entity == entity {
			records += len(snapshots)
			delete(s.usage, key)
		}
	}
	s.deleted[entity] = d
	return records
}

// sweep forgets what expired, now and then.
func (s *shard) sweep(now int64) {
	if now < s.sweepAt && now > s.sweepAt-exact.SweepJump {
		return
	}
	s.sweepAt = now + sweepEvery
	now = s.horizon.At(now)
	for e := range s.each(limiter.Scope{}) {
		if e.Gone(now - exact.SweepMargin) {
			s.expire(e)
		}
	}
	for key, h := range s.usage {
		h = slices.DeleteFunc(h, func(snap *snapshot) bool { return snap.expires <= now })
		if s.usage[key] = h; len(h) == 0 {
			delete(s.usage, key)
		}
	}
	for entity, d := range s.deleted {
		if d.at <= now-DefaultRetention.Milliseconds() {
			delete(s.deleted, entity)
		}
	}
}
