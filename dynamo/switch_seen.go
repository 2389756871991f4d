package dynamo

import (
	"sync"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// seenSwitches holds switches as they were last read, for LastSwitch. The cache
// would not do: it drops what a change of this process makes obsolete, and what
// does not fit.
type seenSwitches struct {
	maxAncestors int

	mu  sync.RWMutex
	off map[factKey]rules.Switches // without items that have none
	// The ancestors whose switches have refused entities.
	ancestors map[factKey]string
}

func newSeenSwitches(maxAncestors int) *seenSwitches {
	return &seenSwitches{
		maxAncestors: maxAncestors, off: map[factKey]rules.Switches{}, ancestors: map[factKey]string{},
	}
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

// setAncestor keeps the ancestor whose switch refused an entity. It drops others at
// random if there are too many.
func (s *seenSwitches) setAncestor(entity factKey, ancestor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.ancestors {
		if len(s.ancestors) < s.maxAncestors {
			break
		}
		delete(s.ancestors, other)
	}
	s.ancestors[entity] = ancestor
}

// forgetAncestor drops the ancestor whose switch refused an entity.
func (s *seenSwitches) forgetAncestor(entity factKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ancestors, entity)
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

	for k := range s.ancestors {
		if k.ns == ns {
			delete(s.ancestors, k)
		}
	}
}

// LastSwitch returns the switch that refused the charges of an entity and a
// resource when this process last read the switches, or nil. It reads nothing.
func (r *Repository) LastSwitch(entity, resource string) *limiter.Switch {
	climb := chain.Begin(entity)
	for id := entity; id != ""; {
		if s := r.lastSwitch(id, resource); s != nil {
			return s
		}

		f := r.cache.stale(r.entityFact(id))
		if f == nil {
			break
		}
		id, _ = climb.Next(f.place)
		// The records say where the charges go now.
		if id == "" {
			return nil
		}
	}

	// A record of the chain is not known.
	r.seen.mu.RLock()
	ancestor := r.seen.ancestors[r.entityFact(entity)]
	r.seen.mu.RUnlock()
	if ancestor == "" {
		return nil
	}
	return r.lastSwitch(ancestor, resource)
}

func (r *Repository) lastSwitch(entity, resource string) *limiter.Switch {
	r.seen.mu.RLock()
	defer r.seen.mu.RUnlock()
	return refusing(r.seen.off[r.switchFact(entity)], r.seen.off[r.switchFact("")], entity, resource)
}
