package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// namespace identifies the namespace of a repository.
type namespace struct {
	key      int64
	id, name string
	facts    atomic.Pointer[facts]
	chains   chains
}

const namespaceColumns = "key, id, name, created, deleted, purging"

// namespaceRow is a row of the table namespaces.
type namespaceRow struct {
	limiter.Namespace
	key int64
}

func scanNamespace(scan func(...any) error) (s namespaceRow, err error) {
	var created int64
	var deleted *int64
	err = scan(&s.key, &s.ID, &s.Name, &created, &deleted, &s.Purging)

	s.CreatedAt = time.Unix(created, 0).UTC()
	if deleted != nil {
		s.DeletedAt = time.Unix(*deleted, 0).UTC()
	}
	return s, err
}

// namespace returns the row that a condition selects, or errNoRow.
func (t *tx) namespace(where string, args ...any) (s namespaceRow, err error) {
	found := false
	err = t.query(func(scan func(...any) error) error {
		found = true
		s, err = scanNamespace(scan)
		return err
	}, "SELECT "+namespaceColumns+" FROM namespaces_v7 WHERE "+where, args...)
	if err == nil && !found {
		err = errNoRow
	}
	return s, err
}

const activeName = "name = ? AND deleted IS NULL"

func noNamespace(name string) error {
	return fmt.Errorf("namespace %q: %w", name, limiter.ErrNotFound)
}

// openNamespace returns the namespace of a new repository. It registers a missing
// one if the options allow it.
func (f *file) openNamespace(ctx context.Context, name string) (*namespace, error) {
	n, err := f.findNamespace(ctx, name)
	if !errors.Is(err, limiter.ErrNotFound) {
		return n, err
	}

	if !f.opts.mayCreate() {
		return nil, fmt.Errorf("namespace %q: %w in %s; register it first", name, limiter.ErrNotFound, f.path)
	}

	err = f.write(ctx, time.Time{}, func(tx *tx) error {
		// No caller has passed a time yet.
		_, err := tx.register(time.Now(), name)
		return err
	})
	if err != nil {
		return nil, err
	}

	return f.findNamespace(ctx, name)
}

// findNamespace returns an active namespace. The error matches limiter.ErrNotFound
// if there is none.
func (f *file) findNamespace(ctx context.Context, name string) (*namespace, error) {
	n := &namespace{name: name}
	n.facts.Store(&facts{})
	err := f.read(ctx, func(tx *tx) error {
		s, err := tx.namespace(activeName, name)
		if err != nil {
			return err
		}
		n.key, n.id = s.key, s.ID
		_, err = n.requireActive(tx)
		return err
	})
	if errors.Is(err, errNoRow) {
		return nil, noNamespace(name)
	}
	return n, err
}

// requireActive returns the generation of the namespace. The error matches
// limiter.ErrNotFound if the namespace is not active. It also updates the cached
// facts.
func (n *namespace) requireActive(tx *tx) (int64, error) {
	var generation int64
	err := tx.row("SELECT facts FROM namespaces_v7 WHERE key = ? AND deleted IS NULL", n.key).scan(&generation)
	if errors.Is(err, errNoRow) {
		return 0, noNamespace(n.name)
	}
	if err != nil {
		return 0, err
	}
	_, err = n.factsAt(tx, generation)
	return generation, err
}

// NamespaceID returns the ID of the repository's namespace.
func (r *Repository) NamespaceID() string { return r.id }

// Namespace returns a view of another namespace. The error matches
// limiter.ErrNotFound if the namespace is not active.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	n, err := r.findNamespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Repository{file: r.file, namespace: n, view: true}, nil
}

// Namespaces iterates over the namespaces in any state, by name, then ID.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rules.Sequence(func() (all []limiter.Namespace, err error) {
		err = r.read(ctx, func(tx *tx) error {
			return tx.query(func(scan func(...any) error) error {
				s, err := scanNamespace(scan)
				all = append(all, s.Namespace)
				return err
			}, "SELECT "+namespaceColumns+" FROM namespaces_v7 ORDER BY name, id")
		})
		return all, err
	})
}

// RegisterNamespace returns the active namespace of that name. It creates one if
// there is none.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	return writeValue(ctx, r.file, now, func(tx *tx) (limiter.Namespace, error) {
		s, err := tx.register(now, name)
		return s.Namespace, err
	})
}

func (t *tx) register(now time.Time, name string) (namespaceRow, error) {
	s, err := t.namespace(activeName, name)
	if !errors.Is(err, errNoRow) {
		return s, err
	}

	if _, err := t.exec(
		"INSERT INTO namespaces_v7 (id, name, created) VALUES (?, ?, ?)", rules.NewNamespaceID(), name,
		now.Unix(),
	); err != nil {
		return namespaceRow{}, err
	}

	return t.namespace(activeName, name)
}

// DeleteNamespace deletes a namespace and frees its name. The data stays under
// its ID until it is purged.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	return r.write(ctx, now, func(tx *tx) error {
		n, err := tx.exec("UPDATE namespaces_v7 SET deleted = ? WHERE "+activeName, now.Unix(), name)
		if err == nil && n == 0 {
			return noNamespace(name)
		}
		return err
	})
}

// deletedNamespace returns a deleted namespace. The error matches
// limiter.ErrNotFound or, for an active namespace, limiter.ErrConflict.
func (t *tx) deletedNamespace(id string) (namespaceRow, error) {
	s, err := t.namespace("id = ?", id)
	switch {
	case errors.Is(err, errNoRow):
		return s, fmt.Errorf("namespace ID %q: %w", id, limiter.ErrNotFound)
	case err == nil && s.DeletedAt.IsZero():
		return s, fmt.Errorf("namespace ID %q is active: %w", id, limiter.ErrConflict)
	}
	return s, err
}

// RecoverNamespace makes a deleted namespace active again. The error matches
// limiter.ErrNotFound for an unknown ID, limiter.ErrConflict for a namespace that
// is active or being purged, and limiter.ErrExists if another one has the name.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	return writeValue(ctx, r.file, now, func(tx *tx) (limiter.Namespace, error) {
		s, err := tx.deletedNamespace(id)
		if err != nil {
			return limiter.Namespace{}, err
		}

		if s.Purging {
			return limiter.Namespace{}, fmt.Errorf("namespace ID %q is being purged: %w", id, limiter.ErrConflict)
		}

		if _, err := tx.namespace(activeName, s.Name); !errors.Is(err, errNoRow) {
			return limiter.Namespace{}, errors.Join(err, fmt.Errorf("namespace %q: %w", s.Name, limiter.ErrExists))
		}

		s.DeletedAt = time.Time{}
		_, err = tx.exec("UPDATE namespaces_v7 SET deleted = NULL WHERE key = ?", s.key)
		return s.Namespace, err
	})
}
