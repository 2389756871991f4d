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

// namespace is the one a repository looks at.
type namespace struct {
	key      int64
	id, name string
	seen     atomic.Pointer[seenMode]
}

// seenMode is the stored mode as of a change number.
type seenMode struct {
	mode  limiter.OnUnavailable
	facts int64
}

const namespaceColumns = "key, id, name, created, deleted, purging"

// space is a row of the namespaces table.
type space struct {
	limiter.Namespace
	key int64
}

func scanSpace(scan func(...any) error) (s space, err error) {
	var created int64
	var deleted *int64
	err = scan(&s.key, &s.ID, &s.Name, &created, &deleted, &s.Purging)
	s.CreatedAt = time.Unix(created, 0).UTC()
	if deleted != nil {
		s.DeletedAt = time.Unix(*deleted, 0).UTC()
	}
	return s, err
}

// space is the one row that a condition selects; errNoRow.
func (t *tx) space(where string, args ...any) (s space, err error) {
	found := false
	err = t.query(func(scan func(...any) error) error {
		found = true
		s, err = scanSpace(scan)
		return err
	}, "SELECT "+namespaceColumns+" FROM namespaces WHERE "+where, args...)
	if err == nil && !found {
		err = errNoRow
	}
	return s, err
}

const activeName = "name = ? AND deleted IS NULL"

func noNamespace(name string) error {
	return fmt.Errorf("namespace %q: %w", name, limiter.ErrNotFound)
}

// enter is the namespace to open the file in, registered if it may be.
func (f *file) enter(ctx context.Context, name string) (*namespace, error) {
	n, err := f.look(ctx, name)
	if !errors.Is(err, limiter.ErrNotFound) {
		return n, err
	}
	if !f.opts.makes() {
		return nil, fmt.Errorf("namespace %q: %w in %s; register it first", name, limiter.ErrNotFound, f.path)
	}
	err = f.write(ctx, time.Time{}, func(tx *tx) error {
		_, err := tx.register(time.Now(), name) // there is no caller's clock yet
		return err
	})
	if err != nil {
		return nil, err
	}
	return f.look(ctx, name)
}

// look is a view of an active namespace.
func (f *file) look(ctx context.Context, name string) (*namespace, error) {
	n := &namespace{name: name}
	n.seen.Store(&seenMode{})
	err := f.read(ctx, func(tx *tx) error {
		s, err := tx.space(activeName, name)
		if err != nil {
			return err
		}
		n.key, n.id = s.key, s.ID
		_, err = n.facts(tx)
		return err
	})
	if errors.Is(err, errNoRow) {
		return nil, noNamespace(name)
	}
	return n, err
}

// facts is the change number of an active namespace; ErrNotFound. It keeps the
// remembered mode up to date.
func (n *namespace) facts(tx *tx) (int64, error) {
	var facts int64
	err := tx.row("SELECT facts FROM namespaces WHERE key = ? AND deleted IS NULL", n.key).scan(&facts)
	if errors.Is(err, errNoRow) {
		return 0, noNamespace(n.name)
	}
	if err != nil {
		return 0, err
	}
	return facts, n.remember(tx, facts)
}

// remember keeps the mode that belongs to a change number, once that number is
// stored: a change that fails to commit leaves its number to another one.
func (n *namespace) remember(tx *tx, facts int64) error {
	if n.seen.Load().facts == facts {
		return nil
	}
	var mode string // the limits beside it may be damaged, which is for those to find who need them
	err := tx.row("SELECT on_unavailable FROM configs WHERE ns = ? AND entity = '' AND resource = ''", n.key).scan(&mode)
	if err != nil && !errors.Is(err, errNoRow) {
		return err
	}
	next := &seenMode{limiter.OnUnavailable(mode), facts}
	if tx.writes { // which is one at a time, and sees the latest
		tx.whenStored(func() { n.seen.Store(next) })
		return nil
	}
	for old := n.seen.Load(); old.facts < facts; old = n.seen.Load() {
		if n.seen.CompareAndSwap(old, next) {
			break
		}
	}
	return nil
}

// NamespaceID is the one the repository looks at.
func (r *Repository) NamespaceID() string { return r.id }

// Namespace is a view of another namespace; ErrNotFound unless it is active.
func (r *Repository) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	n, err := r.look(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Repository{file: r.file, namespace: n, view: true}, nil
}

// Namespaces are those in any state, by name, then ID.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rules.Sequence(func() (all []limiter.Namespace, err error) {
		err = r.read(ctx, func(tx *tx) error {
			return tx.query(func(scan func(...any) error) error {
				s, err := scanSpace(scan)
				all = append(all, s.Namespace)
				return err
			}, "SELECT "+namespaceColumns+" FROM namespaces ORDER BY name, id")
		})
		return all, err
	})
}

// RegisterNamespace makes the name active, or returns the one that is.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	return writing(ctx, r.file, now, func(tx *tx) (limiter.Namespace, error) {
		s, err := tx.register(now, name)
		return s.Namespace, err
	})
}

func (t *tx) register(now time.Time, name string) (space, error) {
	s, err := t.space(activeName, name)
	if !errors.Is(err, errNoRow) {
		return s, err
	}
	if _, err := t.exec("INSERT INTO namespaces (id, name, created) VALUES (?, ?, ?)", rules.NewNamespaceID(), name, now.Unix()); err != nil {
		return space{}, err
	}
	return t.space(activeName, name)
}

// DeleteNamespace makes the name free; the data stay under its ID.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	return r.write(ctx, now, func(tx *tx) error {
		n, err := tx.exec("UPDATE namespaces SET deleted = ? WHERE "+activeName, now.Unix(), name)
		if err == nil && n == 0 {
			return noNamespace(name)
		}
		return err
	})
}

// deletedSpace is a namespace that is deleted, or why it cannot be had.
func (t *tx) deletedSpace(id string) (space, error) {
	s, err := t.space("id = ?", id)
	switch {
	case errors.Is(err, errNoRow):
		return s, fmt.Errorf("namespace id %q: %w", id, limiter.ErrNotFound)
	case err == nil && s.DeletedAt.IsZero():
		return s, fmt.Errorf("namespace id %q is active: %w", id, limiter.ErrConflict)
	}
	return s, err
}

// RecoverNamespace makes a deleted namespace active again.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	return writing(ctx, r.file, now, func(tx *tx) (limiter.Namespace, error) {
		s, err := tx.deletedSpace(id)
		if err != nil {
			return limiter.Namespace{}, err
		}
		if s.Purging {
			return limiter.Namespace{}, fmt.Errorf("namespace id %q is being purged: %w", id, limiter.ErrConflict)
		}
		if _, err := tx.space(activeName, s.Name); !errors.Is(err, errNoRow) {
			return limiter.Namespace{}, errors.Join(err, fmt.Errorf("namespace %q: %w", s.Name, limiter.ErrExists))
		}
		s.DeletedAt = time.Time{}
		_, err = tx.exec("UPDATE namespaces SET deleted = NULL WHERE key = ?", s.key)
		return s.Namespace, err
	})
}
