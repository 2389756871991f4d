package memory

import (
	"hash/maphash"
	"iter"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// shardBits is how many bits of an entity's hash choose its shard.
const shardBits = 8

// shard holds the buckets and usage of some entities: all that an entity has is
// in one shard.
type shard struct {
	mu        sync.Mutex
	seed      maphash.Seed
	buckets   table[entry, *entry]
	usage     table[series, *series]
	names     nameCache
	deleted   map[string]deletion // by entity; nil when empty
	retention time.Duration       // of usage
	_         [64]byte
}

// entry is a bucket in memory, and the Ref of its accounts.
type entry struct {
	rules.Bucket
	link[entry]
	facts   uint64 // the namespace's when limits and parent were looked up, 0 = never
	number  uint64 // in order of creation
	cascade bool
	swept   bool // expired and removed; a lease may still refer to it
}

// deletion says that an entity's buckets up to a number were deleted, and did
// not just expire: what leases still have to do with them is void.
type deletion struct {
	last uint64
	at   int64
}

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

func (s *shard) hash(entity string) uint64 { return maphash.String(s.seed, entity) }

// get is the bucket at a key, nil if there is none.
func (s *shard) get(key limiter.Scope) *entry {
	hash := s.hash(key.Entity)
	for e := s.buckets.first(hash); e != nil; e = e.next {
		if e.hash == hash && e.Account.Entity == key.Entity && e.Account.Resource == key.Resource {
			return e
		}
	}
	return nil
}

// put adds a bucket in the place of one that has expired, if there is one.
func (s *shard) put(e *entry) {
	if old := s.get(keyOf(e)); old != nil {
		s.expire(old)
		s.buckets.remove(old)
	}
	e.hash = s.hash(e.Account.Entity)
	s.buckets.add(e)
}

// expire is the end of a bucket; its usage stays. The caller removes it.
func (s *shard) expire(e *entry) {
	_ = e.Flush(s.book) // the book of this store does not fail
	e.swept = true
}

// each ranges over the buckets of an entity, a resource, both, or all. None may
// be added or removed meanwhile.
func (s *shard) each(of limiter.Scope) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		wanted := func(e *entry) bool {
			return (of.Entity == "" || e.Account.Entity == of.Entity) && (of.Resource == "" || e.Account.Resource == of.Resource)
		}
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

// drop removes buckets and usage of an entity, and counts them.
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
