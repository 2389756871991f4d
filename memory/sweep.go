package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// sweeper forgets what expired in all shards of a store. Calls do it, a part
// each: what nobody touches any more is swept by calls for something else, and
// no call works for long.
type sweeper struct {
	next atomic.Int64 // when a call is to go on, in the callers' milliseconds

	mu     sync.Mutex // held by the call that sweeps
	spaces []*namespace
	began  int64 // when this round did
	at     int   // the shard it has come to, counted over all namespaces
	usage  bool  // that is through with its buckets
	chain  int   // of them, or of its usage
}

const (
	sweepEvery = 60 * 1000   // milliseconds of the callers' time from round to round
	sweepPause = 100         // and between parts, while nothing is found
	sweepJump  = 3600 * 1000 // a plan this far ahead was made by a clock that was
	sweepPart  = 1024        // buckets or series or so that one call looks at
	sweepLock  = 64          // and without letting others at the shard
)

// watch adds a namespace.
func (w *sweeper) watch(n *namespace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spaces = append(w.spaces, n)
}

// leave removes one.
func (w *sweeper) leave(n *namespace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spaces = slices.DeleteFunc(w.spaces, func(other *namespace) bool { return other == n })
}

// due reports whether a call is to sweep.
func (w *sweeper) due(now int64) bool {
	next := w.next.Load()
	return now >= next || now <= next-sweepJump
}

// run sweeps a part, if no other call does. The caller holds no lock.
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
		var looked int
		var some bool
		looked, some, done = w.step(horizon)
		left -= 1 + looked
		found = found || some
	}
	switch {
	case done:
		w.next.Store(now + min(sweepEvery, max(sweepPause, w.began+sweepEvery-now)))
	case found: // the sooner it is free, the better
		w.next.Store(now)
	default:
		w.next.Store(now + sweepPause)
	}
}

// step sweeps some chains of one shard. It returns how much it looked at, and
// whether it found something that had expired, or the end of the round.
func (w *sweeper) step(horizon int64) (looked int, found, done bool) {
	const shards = 1 << shardBits
	if w.at >= shards*len(w.spaces) {
		w.at, w.usage, w.chain = 0, false, 0
		return 0, false, true
	}
	s := &w.spaces[w.at/shards].shards[w.at%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	var end bool
	if !w.usage {
		looked, found, end = sweepChains(&s.buckets, &w.chain, func(e *entry) (kept bool, cost int) {
			if !e.Gone(horizon - rules.SweepMargin) {
				return true, 1
			}
			s.expire(e)
			return false, 1
		})
	} else {
		looked, found, end = sweepChains(&s.usage, &w.chain, func(u *series) (kept bool, cost int) {
			return u.fold(horizon, s.retention), 1 + len(u.rows)/sweepLock
		})
	}
	if end {
		w.chain = 0
		if w.usage = !w.usage; !w.usage {
			s.forget(horizon)
			w.at++
		}
	}
	return looked, found, false
}

// sweepChains looks at some nodes from a chain on, and reports whether any went,
// and whether it came to the end.
func sweepChains[T any, P node[T]](t *table[T, P], chain *int, keep func(*T) (kept bool, cost int)) (looked int, found, end bool) {
	for *chain < t.chains && looked < sweepLock {
		looked++
		t.prune(*chain, func(n *T) bool {
			kept, cost := keep(n)
			looked += cost
			found = found || !kept
			return kept
		})
		*chain++
	}
	end = *chain >= t.chains
	t.fit()
	return looked, found, end
}

// forget drops deletions that no lease is as old as.
func (s *shard) forget(now int64) {
	for entity, d := range s.deleted {
		if d.at <= now-DefaultRetention.Milliseconds() {
			delete(s.deleted, entity)
		}
	}
	if len(s.deleted) == 0 {
		s.deleted = nil
	}
}
