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
	err := tx.row("SELECT "+switched+`, c.on_unavailable FROM namespaces_v5 n
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

// parents caches the parents that entities cascade to, as the process last saw
// them. It is for outages only: a charge reads the file.
type parents struct {
	mu sync.RWMutex
	by map[string]string
}

// of returns the parent of an entity, or "".
func (p *parents) of(entity string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.by[entity]
}

// set stores the parent of an entity, "" for none.
func (p *parents) set(entity, parent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if parent == "" {
		delete(p.by, entity)
		return
	}
	const maxParents = 100_000

	// The cache is for outages alone, so it may lose everything, but must not
	// grow forever.
	if p.by == nil || len(p.by) >= maxParents {
		p.by = map[string]string{}
	}

	p.by[entity] = parent
}

// sawParent caches the parent of an entity, "" for none, after the commit if tx
// writes.
func (n *namespace) sawParent(tx *tx, entity, parent string) {
	switch {
	case n.parents.of(entity) == parent:
	case tx.writes:
		tx.onCommit(func() { n.parents.set(entity, parent) })
	default:
		n.parents.set(entity, parent)
	}
}
