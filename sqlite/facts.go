package sqlite

import (
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// facts holds what a process caches of a namespace, as of a generation. It is
// immutable.
type facts struct {
	generation int64
	mode       limiter.OnUnavailable
	switches   rules.Switches // the levels that are off
	switched   int64          // the generation of their last change
}

// factsAt returns the facts of a generation, and caches them. In a writer's
// transaction the cache gets them after the commit: if the commit fails, another
// change gets the same generation.
func (n *namespace) factsAt(tx *tx, generation int64) (*facts, error) {
	known := n.facts.Load()

	// An earlier call of this transaction may have changed them.
	if changed := tx.facts[n]; changed != nil {
		known = changed
	}

	if known.generation == generation {
		return known, nil
	}

	next, err := n.readFacts(tx, known)
	if err != nil {
		return nil, err
	}
	next.generation = generation

	// Writes come one after the other, and see the latest generation. A commit
	// may still fail, so others see the facts only after it.
	if tx.writes {
		if tx.facts == nil {
			tx.facts = map[*namespace]*facts{}
		}
		tx.facts[n] = next
		tx.onCommit(func() { n.facts.Store(next) })
		return next, nil
	}

	// Another reader may have been faster, and older facts must not replace its
	// newer ones.
	for old := n.facts.Load(); old.generation < generation; old = n.facts.Load() {
		if n.facts.CompareAndSwap(old, next) {
			break
		}
	}
	return next, nil
}

// readFacts reads the facts of a transaction. It reads the switches only if they
// have changed.
func (n *namespace) readFacts(tx *tx, known *facts) (*facts, error) {
	// A file from before version 5 has no switches.
	switched := "n.switched"
	if tx.schema < quotasSince {
		switched = "0"
	}

	next := &facts{switches: known.switches}

	// The query leaves out the limits of the row, which may be damaged.
	var mode *string
	err := tx.row("SELECT "+switched+`, c.on_unavailable FROM namespaces_v7 n
		LEFT JOIN configs c ON c.ns = n.key AND c.entity = '' AND c.resource = '' WHERE n.key = ?`, n.key).
		scan(&next.switched, &mode)
	if err != nil && !errors.Is(err, errNoRow) {
		return nil, err
	}
	if mode != nil {
		next.mode = limiter.OnUnavailable(*mode)
	}

	if next.switched != known.switched {
		next.switches, err = tx.switches(n.key)
		return next, err
	}
	return next, nil
}

// switches reads the levels of a namespace that are off.
func (t *tx) switches(ns int64) (rules.Switches, error) {
	all := rules.Switches{}
	err := t.query(func(scan func(...any) error) error {
		var s limiter.Switch
		var since int64
		err := scan(&s.Scope.Entity, &s.Scope.Resource, &s.Reason, &since)
		s.Since = time.Unix(since, 0).UTC()
		all[s.Scope] = s
		return err
	}, "SELECT entity, resource, reason, since FROM switches WHERE ns = ?", ns)
	return all, err
}

// chains caches the chains of entities that cascade. A charge uses a chain of its own
// generation; in an outage, LastSwitch uses the last one that is known.
type chains struct {
	mu sync.RWMutex
	by map[string]knownChain
}

// knownChain is a chain as of a generation of the namespace, 0 for an unknown one. It is
// immutable.
type knownChain struct {
	generation int64
	entities   []string
}

// of returns the chain of an entity.
func (c *chains) of(entity string) knownChain {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if known, ok := c.by[entity]; ok {
		return known
	}
	return knownChain{0, []string{entity}}
}

// set stores a chain. Entities that do not cascade need no entry.
func (c *chains) set(generation int64, entities []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(entities) == 1 {
		delete(c.by, entities[0])
		return
	}
	const maxChains = 100_000

	// An entry that is gone costs reads, so the cache may lose everything, but must
	// not grow forever.
	if c.by == nil || len(c.by) >= maxChains {
		c.by = map[string]knownChain{}
	}

	c.by[entities[0]] = knownChain{generation, entities}
}

// sawChain caches a chain, after the commit if tx writes.
func (n *namespace) sawChain(tx *tx, generation int64, entities []string) {
	if tx.writes {
		tx.onCommit(func() { n.chains.set(generation, entities) })
		return
	}
	n.chains.set(generation, entities)
}

// chainAt returns an entity and the ancestors that its charges reach, as of a
// generation. found is a bucket of the entity, or nil.
func (n *namespace) chainAt(tx *tx, entity string, found *record, generation int64) ([]string, error) {
	known := n.chains.of(entity)
	switch {
	// The bucket of an entity that does not cascade says so without a read.
	case found != nil && found.generation == generation && found.parent == "":
		if len(known.entities) > 1 {
			n.sawChain(tx, generation, []string{entity})
		}
		return []string{entity}, nil
	case known.generation == generation:
		return known.entities, nil
	}
	return n.climb(tx, entity, generation)
}

// climb reads a chain and caches it.
func (n *namespace) climb(tx *tx, entity string, generation int64) ([]string, error) {
	levels, err := rules.Climb(entity, tx.placeIn(n.key))
	// A chain that is too deep is climbed each time.
	if err == nil {
		n.sawChain(tx, generation, levels)
	}
	return levels, err
}
