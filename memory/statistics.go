package memory

import (
	"iter"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

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
