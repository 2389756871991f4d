package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// CreateEntity stores an entity and its audit event. The error matches
// limiter.ErrExists if there is such an entity.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.entities[e.ID]; ok {
		return fmt.Errorf("entity %q: %w", e.ID, limiter.ErrExists)
	}

	if err := rules.CheckPlace(&e, r.place); err != nil {
		return err
	}

	r.entities[e.ID] = cloned(e)
	r.generation.Add(1)
	r.record(ev)
	return nil
}

// Entity returns a stored entity. The error matches limiter.ErrNotFound if there
// is none.
func (r *Repository) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	if err := r.requireActive(ctx); err != nil {
		return limiter.Entity{}, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entities[id]
	if !ok {
		return limiter.Entity{}, fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
	}
	return cloned(e), nil
}

// Entities iterates over the children of parent in ID order, or over all entities
// if parent is empty.
func (r *Repository) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	return rules.Sequence(func() ([]limiter.Entity, error) {
		if err := r.requireActive(ctx); err != nil {
			return nil, err
		}
		r.mu.RLock()
		defer r.mu.RUnlock()

		var all []limiter.Entity
		for _, e := range r.entities {
			if parent == "" || e.Parent == parent {
				all = append(all, cloned(e))
			}
		}
		slices.SortFunc(all, func(a, b limiter.Entity) int { return cmp.Compare(a.ID, b.ID) })
		return all, nil
	})
}

// DeleteEntity removes an entity with its limits, buckets and usage. The error
// matches limiter.ErrNotFound if nothing is stored for it.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	s := r.shard(id)
	if !r.hasData(id, s, ev.At.UnixMilli()) {
		return fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
	}

	records := 0
	if _, ok := r.entities[id]; ok {
		delete(r.entities, id)
		records++
	}
	for scope := range r.configs {
		if scope.Entity == id {
			delete(r.configs, scope)
			records++
		}
	}

	// The number of the last bucket lets credits of older leases be skipped,
	// and not those of a bucket that is created again.
	r.generation.Add(1)
	records += s.drop(id, deletion{r.created.Load(), ev.At.UnixMilli()})
	r.record(rules.With(ev, "records_deleted", int64(records)))
	return nil
}

// hasData reports whether anything is stored for an entity. An expired bucket
// without usage does not count. The caller holds mu.
func (r *Repository) hasData(id string, s *shard, now int64) bool {
	if _, ok := r.entities[id]; ok {
		return true
	}
	for scope := range r.configs {
		if scope.Entity == id {
			return true
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	// Usage that is not booked yet is data, although its bucket has expired.
	for e := range s.each(limiter.Scope{Entity: id}) {
		if e.Events > 0 || !e.Gone(now) {
			return true
		}
	}

	for range s.usages(id) {
		return true
	}
	return false
}

func cloned(e limiter.Entity) limiter.Entity {
	e.Metadata = maps.Clone(e.Metadata)
	return e
}
