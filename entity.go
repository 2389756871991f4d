package limiter

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/chain"
)

// Entity is a subject of limits, such as a user, an API key or a project. An
// entity needs a record only to have a parent, a name or metadata. The parent may be
// created later.
//
// With Cascade, the parent pays the same amounts. A parent that cascades passes them
// on, so that a charge has up to MaxLevels payers: a key, its project, its team and its
// organization, for example. The entity and its parent have limits by Precedence. From
// the grandparent up, an entity pays only by limits that are stored for that entity.
type Entity struct {
	// ID begins with a letter or digit, then has letters, digits or _.-:@ and at
	// most 256 characters in all.
	ID        string
	Name      string            // for people; defaults to ID
	Parent    string            // an ID, "" for none
	Cascade   bool              // needs a parent
	Metadata  map[string]string // for people; nil if empty
	CreatedAt time.Time         // whole seconds; set by CreateEntity
	// Generation rises with each change of Parent and Cascade; set by CreateEntity. It
	// is 0 for a record that the Python library or a release before deep trees has
	// stored. Its charges reach its parent and go no further, as they did.
	Generation int64
}

// MaxLevels is the largest number of entities that one charge reaches.
const MaxLevels = chain.MaxLevels

// Validate checks e. The error is an *[InvalidError].
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

// CreateEntity stores a new entity and returns it as stored. It returns ErrExists
// if the entity has a record, and an *InvalidError if the entity would be
// its own ancestor or too deep, or cascades without a parent.
func (l *RateLimiter) CreateEntity(ctx context.Context, e Entity) (Entity, error) {
	if err := e.Validate(); err != nil {
		return Entity{}, err
	}

	if e.Name == "" {
		e.Name = e.ID
	}
	// The caller may change its map later.
	e.Metadata = maps.Clone(e.Metadata)
	if len(e.Metadata) == 0 {
		e.Metadata = nil
	}

	ev, err := l.newEvent("entity_created", e.ID, "", e.details())
	if err != nil {
		return Entity{}, err
	}
	// Stores keep whole seconds, and the result shows the entity as it is
	// stored.
	e.CreatedAt = ev.At.Truncate(time.Second)
	// An entity that is deleted and created again has a later generation.
	e.Generation = ev.At.UnixMilli()
	if err := callStore(ctx, "create entity", e.ID, "", func() error {
		return l.repo.CreateEntity(ctx, e, ev)
	}); err != nil {
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

// Entity returns the stored record of an entity, or ErrNotFound.
func (l *RateLimiter) Entity(ctx context.Context, id string) (Entity, error) {
	if err := validEntity(id); err != nil {
		return Entity{}, err
	}
	var e Entity
	err := callStore(ctx, "entity", id, "", func() (err error) { e, err = l.repo.Entity(ctx, id); return err })
	return e, err
}

// Chain returns the records of an entity and of the ancestors that its charges reach,
// from the parent up. The record of an entity that has none holds the ID alone. From the
// grandparent up, an ancestor pays only if limits are stored for it.
func (l *RateLimiter) Chain(ctx context.Context, id string) ([]Entity, error) {
	if err := validEntity(id); err != nil {
		return nil, err
	}

	var all []Entity
	climb := chain.Begin(id)
	for next := id; next != ""; {
		e, err := l.Entity(ctx, next)
		// The error is the same for a namespace that is gone, which has no system level
		// either.
		if errors.Is(err, ErrNotFound) {
			_, err = l.repo.Config(ctx, Scope{})
			err = translateError(ctx, "chain", next, "", err)
		}
		if err != nil {
			return nil, err
		}
		e.ID = next
		all = append(all, e)

		// A chain that is too deep ends where its charges fail.
		next, _ = climb.Next(chain.Place{Parent: e.Parent, Cascade: e.Cascade, Generation: e.Generation})
	}
	return all, nil
}

// DeleteEntity deletes the record, buckets, limits and usage of an entity. It
// keeps its audit events and its children. It returns ErrNotFound if there is
// nothing to delete. After a partial failure, a second call finishes the work.
func (l *RateLimiter) DeleteEntity(ctx context.Context, id string) error {
	if err := validEntity(id); err != nil {
		return err
	}
	ev, err := l.newEvent("entity_deleted", id, "", map[string]any{})
	if err != nil {
		return err
	}
	return callStore(ctx, "delete entity", id, "", func() error { return l.repo.DeleteEntity(ctx, id, ev) })
}

// Entities iterates over the stored entities in ID order.
func (l *RateLimiter) Entities(ctx context.Context) iter.Seq2[Entity, error] {
	return translateErrors(ctx, "entities", "", "", l.repo.Entities(ctx, ""))
}

// Children iterates over the stored entities with the given parent, in ID order.
func (l *RateLimiter) Children(ctx context.Context, parent string) iter.Seq2[Entity, error] {
	if err := idSyntax.check("parent_id", parent); err != nil {
		return errorSeq[Entity](err)
	}
	return translateErrors(ctx, "children", parent, "", l.repo.Entities(ctx, parent))
}
