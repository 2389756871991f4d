package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// sweeper removes expired data from all shards of a store. It has no goroutine:
// calls sweep a small part each, whatever entity they are for.
type sweeper struct {
	next atomic.Int64 // when the next call sweeps, in the callers' milliseconds

	mu         sync.Mutex // held by the call that sweeps
	namespaces []*namespace
	began      int64 // start of the current round
	at         int   // current shard, counted over all namespaces
	usage      bool  // the shard's buckets are done, its usage is next
	chain      int   // next chain of the buckets or the usage
}

const (
	sweepEvery = 60 * 1000   // milliseconds of the callers' time between rounds
	sweepPause = 100         // milliseconds between parts that found nothing
	sweepJump  = 3600 * 1000 // a next time this far ahead was set by a wrong clock
	sweepPart  = 1024        // number of buckets or series that one call visits
	sweepLock  = 64          // number visited while a shard stays locked
)

// watch adds a namespace.
func (w *sweeper) watch(n *namespace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces = append(w.namespaces, n)
}

// unwatch removes a namespace.
func (w *sweeper) unwatch(n *namespace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces = slices.DeleteFunc(w.namespaces, func(other *namespace) bool { return other == n })
}

// due reports whether a call at now should sweep.
func (w *sweeper) due(now int64) bool {
	// A next time that is far ahead of the caller was set by a wrong clock.
	next := w.next.Load()
	return now >= next || now <= next-sweepJump
}

// run sweeps a part, unless another call is sweeping. The caller holds no lock.
func (w *sweeper) run(now int64, machine *rules.Machine) {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()

	if w.at == 0 && w.chain == 0 && !w.usage {
		w.began = now
	}

	horizon := machine.Horizon(now)
	found, done := false, false
	for left := sweepPart; left > 0 && !done; {
		var visited int
		var removed bool
		visited, removed, done = w.step(horizon)
		// A step that visits nothing counts too, so that the loop ends on a
		// store of empty shards.
		left -= 1 + visited
		found = found || removed
	}

	switch {
	// A round begins a minute after the one before, or after a short pause if
	// that took longer.
	case done:
		w.next.Store(now + min(sweepEvery, max(sweepPause, w.began+sweepEvery-now)))
	// There may be more in the next shards, so the next call goes on.
	case found:
		w.next.Store(now)
	default:
		w.next.Store(now + sweepPause)
	}
}

// step sweeps some chains of one shard. It returns the number of nodes it visited,
// whether it removed any, and whether the round is complete.
func (w *sweeper) step(horizon int64) (visited int, removed, done bool) {
	const shards = 1 << shardBits

	if w.at >= shards*len(w.namespaces) {
		w.at, w.usage, w.chain = 0, false, 0
		return 0, false, true
	}

	s := &w.namespaces[w.at/shards].shards[w.at%shards]
	s.mu.Lock()
	defer s.mu.Unlock()

	var end bool
	if !w.usage {
		visited, removed, end = sweepChains(&s.buckets, &w.chain, func(e *entry) (kept bool, cost int) {
			// Clients whose clocks are behind by less than the margin see the
			// same, removed or not.
			if !e.Gone(horizon - rules.SweepMargin) {
				return true, 1
			}
			s.expire(e)
			return false, 1
		})
	} else {
		visited, removed, end = sweepChains(&s.usage, &w.chain, func(u *series) (kept bool, cost int) {
			// A long series costs more than one node, so that a shard is not
			// locked for long.
			return u.rollUp(horizon, s.retention), 1 + len(u.rows)/sweepLock
		})
	}

	if end {
		w.chain = 0
		if w.usage = !w.usage; !w.usage {
			s.forgetDeletions(horizon)
			w.at++
		}
	}

	return visited, removed, false
}

// sweepChains visits some nodes, beginning with a chain, and advances that chain.
// It reports whether it removed any, and whether it reached the end of the table.
func sweepChains[T any, P node[T]](
	t *table[T, P], chain *int, keep func(*T) (kept bool, cost int),
) (visited int, removed, end bool) {
	// An empty chain counts too, or a sparse table would keep its shard locked.
	for *chain < t.chains && visited < sweepLock {
		visited++
		t.prune(*chain, func(n *T) bool {
			kept, cost := keep(n)
			visited += cost
			removed = removed || !kept
			return kept
		})
		*chain++
	}
	// fit shortens the table, so the end is decided first.
	end = *chain >= t.chains
	t.fit()
	return visited, removed, end
}

// forgetDeletions drops deletions that are older than any lease.
func (s *shard) forgetDeletions(now int64) {
	for entity, d := range s.deleted {
		if d.at <= now-DefaultRetention.Milliseconds() {
			delete(s.deleted, entity)
		}
	}

	if len(s.deleted) == 0 {
		s.deleted = nil
	}
}
