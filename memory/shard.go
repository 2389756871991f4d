package memory

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// shardBits is the number of bits of an entity's hash that select its shard.
const shardBits = 8

// shard holds the buckets and usage of some entities. All data of an entity is in
// one shard.
type shard struct {
	mu        sync.Mutex
	seed      maphash.Seed
	buckets   table[entry, *entry]
	usage     table[series, *series]
	names     nameCache
	deleted   map[string]deletion // by entity; nil when empty
	retention time.Duration       // of usage
	_         [64]byte            // keeps shards on different cache lines
}

// entry is a bucket in memory, and the Ref of its accounts.
type entry struct {
	rules.Bucket
	link[entry]
	generation uint64 // of the namespace when limits and parent were looked up; 0 for never
	seq        uint64 // in order of creation
	cascade    bool
	swept      bool // expired and removed; a lease may still refer to it
}

// deletion records that the buckets of an entity up to last were deleted, as
// opposed to expired. Credits of their leases are skipped.
type deletion struct {
	last uint64
	at   int64
}

func (n *namespace) index(entity string) int {
	return int(maphash.String(n.seed, entity) % uint64(len(n.shards)))
}

func (n *namespace) shard(entity string) *shard { return &n.shards[n.index(entity)] }

// lockAll locks the shards of some entities.
func (n *namespace) lockAll(entities []string) (unlock func()) {
	indices := make([]int, 0, 8)
	for _, entity := range entities {
		indices = append(indices, n.index(entity))
	}

	// Two calls that lock in the same order cannot wait for each other. Entities may
	// share a shard, whose mutex cannot be locked twice.
	slices.Sort(indices)
	indices = slices.Compact(indices)
	for _, i := range indices {
		n.shards[i].mu.Lock()
	}
	return func() {
		for _, i := range indices {
			n.shards[i].mu.Unlock()
		}
	}
}

func (s *shard) hash(entity string) uint64 { return maphash.String(s.seed, entity) }

// get returns the bucket at a key, or nil.
func (s *shard) get(key limiter.Scope) *entry {
	hash := s.hash(key.Entity)
	// Entities whose hashes are equal share a chain, so the names decide.
	for e := s.buckets.first(hash); e != nil; e = e.next {
		if e.hash == hash && e.Account.Entity == key.Entity && e.Account.Resource == key.Resource {
			return e
		}
	}
	return nil
}

// put adds a bucket. It replaces an expired one at the same key.
// Leases of the expired bucket still refer to it: they find the mark, and take
// from the new one.
func (s *shard) put(e *entry) {
	if old := s.get(keyOf(e)); old != nil {
		s.expire(old)
		s.buckets.remove(old)
	}
	e.hash = s.hash(e.Account.Entity)
	s.buckets.add(e)
}

// expire marks a bucket as expired and books its usage. The caller removes it.
func (s *shard) expire(e *entry) {
	_ = e.Flush(s.book) // book never fails
	e.swept = true
}

// each iterates over the buckets of an entity, a resource, both, or all. The loop
// must not add or remove buckets.
func (s *shard) each(of limiter.Scope) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		wanted := func(e *entry) bool {
			return (of.Entity == "" || e.Account.Entity == of.Entity) && (of.Resource == "" ||
				e.Account.Resource == of.Resource)
		}

		// All buckets of an entity are in the chain of its hash.
		if of.Entity != "" {
			for e := s.buckets.first(s.hash(of.Entity)); e != nil; e = e.next {
				if wanted(e) && !yield(e) {
					return
				}
			}
			return
		}

		for e := range s.buckets.all() {
			if wanted(e) && !yield(e) {
				return
			}
		}
	}
}

func keyOf(e *entry) limiter.Scope {
	return limiter.Scope{Entity: e.Account.Entity, Resource: e.Account.Resource}
}

// drop removes the buckets and the usage of an entity and returns their number.
func (s *shard) drop(entity string, d deletion) (records int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.each(limiter.Scope{Entity: entity}) {
		s.expire(e)
		records++
	}

	hash := s.hash(entity)
	if s.buckets.first(hash) != nil {
		s.buckets.prune(s.buckets.index(hash), func(e *entry) bool { return e.Account.Entity != entity })
		s.buckets.fit()
	}

	if s.usage.first(hash) != nil {
		// Other entities may share the chain.
		s.usage.prune(s.usage.index(hash), func(u *series) bool {
			if u.entity != entity {
				return true
			}
			records += len(u.snapshots())
			return false
		})
		s.usage.fit()
	}

	if s.deleted == nil {
		s.deleted = map[string]deletion{}
	}
	s.deleted[entity] = d
	return records
}
