package limiter

import (
	"context"
	"iter"
	"time"
)

// defaultNamespace is there from the start and stays.
const defaultNamespace = "default"

// Namespace separates tenants: entities, limits, buckets, usage and audit events
// of one are invisible to another. A name can be deleted and registered again;
// its data stay under the old ID until that is recovered or purged.
type Namespace struct {
	ID, Name             string    // the store gives the ID
	CreatedAt, DeletedAt time.Time // whole seconds; DeletedAt is zero while active
	Purging              bool      // a purge has begun: there is no way back
}

// Validate tells whether Name may be registered: like an entity id, and not the
// reserved "_". Names that other programs registered are tolerated when read.
func (n Namespace) Validate() error {
	if n.Name == "_" {
		return invalid("namespace", n.Name, "is reserved; choose a name that begins with a letter or digit")
	}
	return idSyntax.check("namespace", n.Name)
}

// Namespace is a view of the limiter in another namespace, with the same
// options. ErrNotFound unless the name is registered and active.
func (l *RateLimiter) Namespace(ctx context.Context, name string) (*RateLimiter, error) {
	if err := shortEnough("namespace", name); err != nil {
		return nil, err
	}
	view := *l
	err := guarded(ctx, "namespace", "", "", func() (err error) { view.repo, err = l.repo.Namespace(ctx, name); return err })
	if err != nil {
		return nil, err
	}
	view.space = spaceOf(view.repo, name)
	return &view, nil
}

// Namespaces are those in any state, by name, then ID.
func (l *RateLimiter) Namespaces(ctx context.Context) iter.Seq2[Namespace, error] {
	return mapped(ctx, "namespaces", "", "", l.repo.Namespaces(ctx))
}

// RegisterNamespaces makes the names active and returns them in the order
// given; one that is active already is returned as it is. All names are checked
// before the first is written.
func (l *RateLimiter) RegisterNamespaces(ctx context.Context, names ...string) ([]Namespace, error) {
	if len(names) == 0 {
		return nil, invalid("namespace", "", "must not be empty; give at least one name")
	}
	for _, name := range names {
		if err := (Namespace{Name: name}).Validate(); err != nil {
			return nil, err
		}
	}
	var all []Namespace
	for _, name := range names {
		var n Namespace
		err := guarded(ctx, "register namespace", "", "", func() (err error) { n, err = l.repo.RegisterNamespace(ctx, l.now(), name); return err })
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

// DeleteNamespace makes a name free. Its data stay under the ID, for
// RecoverNamespace or PurgeNamespace. ErrNotFound; *InvalidError for "default"
// and "_", which stay.
func (l *RateLimiter) DeleteNamespace(ctx context.Context, name string) error {
	if name == "_" || name == defaultNamespace {
		return invalid("namespace", name, "cannot be deleted")
	}
	if err := shortEnough("namespace", name); err != nil {
		return err
	}
	return guarded(ctx, "delete namespace", "", "", func() error { return l.repo.DeleteNamespace(ctx, l.now(), name) })
}

// RecoverNamespace makes a deleted namespace active again under its name.
// ErrNotFound; ErrExists when the name is taken; ErrConflict when it is active
// or being purged.
func (l *RateLimiter) RecoverNamespace(ctx context.Context, id string) (Namespace, error) {
	var n Namespace
	if err := shortEnough("namespace_id", id); err != nil {
		return n, err
	}
	err := guarded(ctx, "recover namespace", "", "", func() (err error) { n, err = l.repo.RecoverNamespace(ctx, l.now(), id); return err })
	return n, err
}

// PurgeNamespace destroys the data of a deleted namespace. ErrNotFound;
// ErrConflict while it is active. A purge that failed half-way is finished by
// another.
func (l *RateLimiter) PurgeNamespace(ctx context.Context, id string) error {
	if err := shortEnough("namespace_id", id); err != nil {
		return err
	}
	return guarded(ctx, "purge namespace", "", "", func() error { return l.repo.PurgeNamespace(ctx, id) })
}
