package escrow

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go"
)

const shardCount = 64

// pots holds the pots of one namespace.
type pots struct {
	*escrow
	seed   maphash.Seed
	shards [shardCount]shard

	fenceMu    sync.Mutex
	fences     []*fence
	fenceCount atomic.Int32 // of fences, to skip the lock

	lentMu sync.Mutex
	lent   map[lentKey]*loan
	given  map[lentKey]*refund // tokens given back to the store lately
}

// shard holds a part of the pots. Its lock guards their fields, too.
type shard struct {
	mu    sync.Mutex
	byKey map[limiter.Scope]*pot
	local int64 // charges that its pots covered
}

func newPots(e *escrow) *pots {
	all := &pots{escrow: e, seed: maphash.MakeSeed(), lent: map[lentKey]*loan{}, given: map[lentKey]*refund{}}
	for i := range all.shards {
		all.shards[i].byKey = map[limiter.Scope]*pot{}
	}
	return all
}

// lock returns the pot of a bucket, locked. Without one, it creates one if create
// is set, or returns nil and locks nothing.
func (all *pots) lock(key limiter.Scope, create bool) *pot {
	s := all.shard(key)
	s.mu.Lock()

	p := s.byKey[key]
	if p == nil && create {
		p = &pot{pots: all, shard: s, key: key}
		s.byKey[key] = p
	}

	if p == nil {
		s.mu.Unlock()
	}
	return p
}

// shard returns the shard of a bucket's pot.
func (all *pots) shard(key limiter.Scope) *shard {
	return &all.shards[maphash.String(all.seed, key.Entity)%shardCount]
}

// each returns the pots that there are now.
func (all *pots) each() (list []*pot) {
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		for _, p := range s.byKey {
			list = append(list, p)
		}
		s.mu.Unlock()
	}
	return list
}

// addTo adds the counters of the namespace to stats.
func (all *pots) addTo(stats *Stats) {
	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		stats.Pots += int64(len(s.byKey))
		stats.AdmittedLocally += s.local
		for _, p := range s.byKey {
			for j := range p.slots {
				stats.Held += p.held[j]
			}
		}
		s.mu.Unlock()
	}
}

// sweep removes the pots that no call has used lately.
func (all *pots) sweep() {
	now := all.machine()
	all.sweepRefunds(now)

	for i := range all.shards {
		s := &all.shards[i]
		s.mu.Lock()
		for key, p := range s.byKey {
			if p.idle(now) {
				delete(s.byKey, key)
			}
		}
		s.mu.Unlock()
	}
}

// fence keeps the pots that it matches closed while limits or entities change.
type fence struct{ match func(*pot) bool }

func everything(*pot) bool { return true }

// fence closes the matching pots, waits for their requests and returns their
// tokens. Until open is called, charges of these buckets go to the store alone. An
// error says that ctx ended first.
func (all *pots) fence(ctx context.Context, match func(*pot) bool) (open func(), err error) {
	// The fence is up before the pots are listed, so that one which is created
	// after that stays empty, too.
	open = all.keepClosed(&fence{match})
	return open, all.empty(ctx, match, all.each()...)
}

// empty waits for the requests of the matching pots and returns their tokens. A
// fence keeps them closed.
func (all *pots) empty(ctx context.Context, match func(*pot) bool, list ...*pot) error {
	for _, p := range list {
		if err := p.drain(ctx, match); err != nil {
			return err
		}
	}

	return all.janitor.flush(ctx)
}

// keepClosed puts up a fence. Charges that it matches go to the store alone until
// open is called.
func (all *pots) keepClosed(f *fence) (open func()) {
	all.fenceMu.Lock()
	defer all.fenceMu.Unlock()
	all.fences = append(all.fences, f)
	all.fenceCount.Store(int32(len(all.fences)))

	return func() {
		all.fenceMu.Lock()
		defer all.fenceMu.Unlock()
		all.fences = slices.DeleteFunc(all.fences, func(other *fence) bool { return other == f })
		all.fenceCount.Store(int32(len(all.fences)))
	}
}

// fenced reports whether a fence matches the pot, which the caller has locked.
func (all *pots) fenced(p *pot) bool {
	// The caller has locked the pot, and drain locks it after the fence went up.
	// So drain finds whatever a call that sees no fence here puts into the pot.
	if all.fenceCount.Load() == 0 {
		return false
	}

	all.fenceMu.Lock()
	defer all.fenceMu.Unlock()
	return slices.ContainsFunc(all.fences, func(f *fence) bool { return f.match(p) })
}
