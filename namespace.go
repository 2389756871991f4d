package limiter

import (
	"context"
	"iter"
	"time"
)

// defaultNamespace exists in every store and cannot be deleted.
const defaultNamespace = "default"

// Namespace isolates one tenant from others: each has its own entities, limits,
// buckets, usage and audit events. A name can be deleted and registered again. The
// data stay under the old ID until it is recovered or purged.
type Namespace struct {
	ID, Name             string    // the store assigns the ID
	CreatedAt, DeletedAt time.Time // whole seconds; DeletedAt is zero while active
	Purging              bool      // a purge has begun, so the namespace cannot be recovered
}

// Validate checks whether Name can be registered. A name has the form of an entity
// ID; "_" is reserved. Reading accepts any name that another program registered.
func (n Namespace) Validate() error {
	if n.Name == "_" {
		return invalid("namespace", n.Name, "is reserved; choose a name that begins with a letter or digit")
	}
	return idSyntax.check("namespace", n.Name)
}

// Namespace returns a view of the limiter in another namespace, with the same
// options. It returns ErrNotFound if the name is not registered or not active.
func (l *RateLimiter) Namespace(ctx context.Context, name string) (*RateLimiter, error) {
	if err := validLength("namespace", name); err != nil {
		return nil, err
	}

	view := *l
	err := callStore(ctx, "namespace", "", "", func() (err error) {
		view.repo, err = l.repo.Namespace(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}

	view.namespace = namespaceID(view.repo, name)
	return &view, nil
}

// Namespaces iterates over the namespaces in any state, by name, then ID.
func (l *RateLimiter) Namespaces(ctx context.Context) iter.Seq2[Namespace, error] {
	return translateErrors(ctx, "namespaces", "", "", l.repo.Namespaces(ctx))
}

// RegisterNamespaces registers the names and returns their namespaces in the order
// given. It returns active namespaces unchanged, and checks all names before it
// writes the first.
func (l *RateLimiter) RegisterNamespaces(ctx context.Context, names ...string) ([]Namespace, error) {
	if len(names) == 0 {
		return nil, invalid("namespace", "", "must not be empty; give at least one name")
	}
	// No name is registered if one of them is wrong.
	for _, name := range names {
		if err := (Namespace{Name: name}).Validate(); err != nil {
			return nil, err
		}
	}

	var all []Namespace
	for _, name := range names {
		var n Namespace
		err := callStore(ctx, "register namespace", "", "", func() (err error) {
			n, err = l.repo.RegisterNamespace(ctx, l.now(), name)
			return err
		})
		// The names that are registered already are returned with the error.
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

// DeleteNamespace deletes a name. Its data stay under the ID, for RecoverNamespace
// or PurgeNamespace. It returns ErrNotFound if no active namespace has the name,
// and an *InvalidError for "default" and "_".
func (l *RateLimiter) DeleteNamespace(ctx context.Context, name string) error {
	if name == "_" || name == defaultNamespace {
		return invalid("namespace", name, "cannot be deleted")
	}

	if err := validLength("namespace", name); err != nil {
		return err
	}
	return callStore(ctx, "delete namespace", "", "", func() error {
		return l.repo.DeleteNamespace(ctx, l.now(), name)
	})
}

// RecoverNamespace activates a deleted namespace again under its name. It returns
// ErrNotFound for an unknown ID, ErrExists if the name is taken, and ErrConflict
// if the namespace is active or being purged.
func (l *RateLimiter) RecoverNamespace(ctx context.Context, id string) (Namespace, error) {
	var n Namespace
	if err := validLength("namespace_id", id); err != nil {
		return n, err
	}

	err := callStore(ctx, "recover namespace", "", "", func() (err error) {
		n, err = l.repo.RecoverNamespace(ctx, l.now(), id)
		return err
	})
	return n, err
}

// PurgeNamespace deletes the data of a deleted namespace. It returns ErrNotFound
// for an unknown ID, and ErrConflict if the namespace is active. After a partial
// failure, a second call finishes the work.
func (l *RateLimiter) PurgeNamespace(ctx context.Context, id string) error {
	if err := validLength("namespace_id", id); err != nil {
		return err
	}
	return callStore(ctx, "purge namespace", "", "", func() error { return l.repo.PurgeNamespace(ctx, id) })
}
