package limiter

import (
	"context"
	"iter"
	"maps"
	"time"
	"unicode/utf8"
)

// Entity is whoever pays: a user, a key, a project. It needs a record only for a
// parent, a name or metadata. With Cascade its parent pays too, one level up.
// The parent may be created later. Neither can be changed afterwards.
type Entity struct {
	ID        string            // begins with a letter or digit, then letters, digits or _.-:@ ; at most 256
	Name      string            // for people; defaults to ID
	Parent    string            // an ID, "" for none
	Cascade   bool              // needs a parent
	Metadata  map[string]string // for people; nil if empty
	CreatedAt time.Time         // whole seconds; set by CreateEntity
}

// Validate is nil or an *[InvalidError].
func (e Entity) Validate() error {
	if err := validEntity(e.ID); err != nil {
		return err
	}
	if e.Parent != "" {
		if err := idSyntax.check("parent_id", e.Parent); err != nil {
			return err
		}
	}
	if e.Parent == e.ID {
		return invalid("parent_id", e.Parent, "must be another entity")
	}
	if e.Cascade && e.Parent == "" {
		return invalid("cascade", "true", "needs a parent_id to cascade to")
	}
	if !utf8.ValidString(e.Name) {
		return invalid("name", e.Name, "must be valid UTF-8")
	}
	for k, v := range e.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return invalid("metadata", k, "must be valid UTF-8")
		}
	}
	return nil
}

// CreateEntity stores a new entity and returns it as stored. ErrExists;
// *InvalidError for an entity that is its own parent or cascades without one.
func (l *RateLimiter) CreateEntity(ctx context.Context, e Entity) (Entity, error) {
	if err := e.Validate(); err != nil {
		return Entity{}, err
	}
	if e.Name == "" {
		e.Name = e.ID
	}
	e.Metadata = maps.Clone(e.Metadata)
	if len(e.Metadata) == 0 {
		e.Metadata = nil
	}
	ev, err := l.event("entity_created", e.ID, "", e.details())
	if err != nil {
		return Entity{}, err
	}
	e.CreatedAt = ev.At.Truncate(time.Second)
	if err := guarded(ctx, "create entity", e.ID, "", func() error { return l.repo.CreateEntity(ctx, e, ev) }); err != nil {
		return Entity{}, err
	}
	return e, nil
}

func (e *Entity) details() map[string]any {
	var parent any
	if e.Parent != "" {
		parent = e.Parent
	}
	metadata := map[string]any{}
	for k, v := range e.Metadata {
		metadata[k] = v
	}
	return map[string]any{"name": e.Name, "parent_id": parent, "cascade": e.Cascade, "metadata": metadata}
}

// Entity is the stored record. ErrNotFound.
func (l *RateLimiter) Entity(ctx context.Context, id string) (Entity, error) {
	if err := validEntity(id); err != nil {
		return Entity{}, err
	}
	var e Entity
	err := guarded(ctx, "entity", id, "", func() (err error) { e, err = l.repo.Entity(ctx, id); return err })
	return e, err
}

// DeleteEntity takes the record, buckets, limits and usage of the entity, not
// its audit events nor its children. ErrNotFound when there is none of that. A
// delete that failed half-way is finished by another.
func (l *RateLimiter) DeleteEntity(ctx context.Context, id string) error {
	if err := validEntity(id); err != nil {
		return err
	}
	ev, err := l.event("entity_deleted", id, "", map[string]any{})
	if err != nil {
		return err
	}
	return guarded(ctx, "delete entity", id, "", func() error { return l.repo.DeleteEntity(ctx, id, ev) })
}

// Entities are all that have a record, by ID.
func (l *RateLimiter) Entities(ctx context.Context) iter.Seq2[Entity, error] {
	return mapped(ctx, "entities", "", "", l.repo.Entities(ctx, ""))
}

// Children are the entities whose parent is the one given, by ID.
func (l *RateLimiter) Children(ctx context.Context, parent string) iter.Seq2[Entity, error] {
	if err := idSyntax.check("parent_id", parent); err != nil {
		return failed[Entity](err)
	}
	return mapped(ctx, "children", parent, "", l.repo.Entities(ctx, parent))
}

// mapped passes a sequence of the store on, its error translated, unless ctx
// has ended before it.
func mapped[T any](ctx context.Context, op, entity, resource string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := ctx.Err(); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for v, err := range seq {
			if !yield(v, failure(ctx, op, entity, resource, err)) {
				return
			}
		}
	}
}

// failed is a sequence that is only an error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, err)
	}
}
