package dynamo

import (
	"sync"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// seenSwitches holds switches as they were last read, for LastSwitch. The cache
// would not do: it drops what a change of this process makes obsolete, and what
// does not fit.
type seenSwitches struct {
	maxParents int

	mu      sync.RWMutex
	off     map[factKey]rules.Switches // without items that have none
	parents map[factKey]string         // of entities that a switch of their parent refused
}

func newSeenSwitches(maxParents int) *seenSwitches {
	return &seenSwitches{maxParents: maxParents, off: map[factKey]rules.Switches{}, parents: map[factKey]string{}}
}

// set keeps the switches of an item.
func (s *seenSwitches) set(k factKey, off rules.Switches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(off) == 0 {
		delete(s.off, k)
		return
	}
	s.off[k] = off
}

// setParent keeps the parent of an entity, or forgets it if parent is "". It drops
// others at random if there are too many.
func (s *seenSwitches) setParent(entity factKey, parent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if parent == "" {
		delete(s.parents, entity)
		return
	}

	for other := range s.parents {
		if len(s.parents) < s.maxParents {
			break
		}
		delete(s.parents, other)
	}
	s.parents[entity] = parent
}

// forgetNamespace drops the switches of a namespace.
func (s *seenSwitches) forgetNamespace(ns string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.off {
		if k.ns == ns {
			delete(s.off, k)
		}
	}

	for k := range s.parents {
		if k.ns == ns {
			delete(s.parents, k)
		}
	}
}

// LastSwitch returns the switch that refused the charges of an entity and a
// resource when this process last read the switches, or nil. It reads nothing.
func (r *Repository) LastSwitch(entity, resource string) *limiter.Switch {
	if s := r.lastSwitch(entity, resource); s != nil {
		return s
	}
	if parent := r.lastParent(entity); parent != "" {
		return r.lastSwitch(parent, resource)
	}
	return nil
}

func (r *Repository) lastSwitch(entity, resource string) *limiter.Switch {
	r.seen.mu.RLock()
	defer r.seen.mu.RUnlock()
	return refusing(r.seen.off[r.switchFact(entity)], r.seen.off[r.switchFact("")], entity, resource)
}

// lastParent returns the parent that an entity cascaded to when its record was last
// read, or "".
func (r *Repository) lastParent(entity string) string {
	k := r.entityFact(entity)
	if f := r.cache.stale(k); f != nil {
		if f.cascade {
			return f.parent
		}
		return ""
	}

	r.seen.mu.RLock()
	defer r.seen.mu.RUnlock()
	return r.seen.parents[k]
}
