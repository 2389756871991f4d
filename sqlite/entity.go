package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// change runs work that changes entities or configs, and starts a new generation:
// the next charge of each bucket, by any process, looks its limits up.
func (r *Repository) change(ctx context.Context, at time.Time, work func(*tx) error) error {
	return r.write(ctx, at, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
			return err
		}
		if err := work(tx); err != nil {
			return err
		}

		// The new generation makes the next charge of each bucket look its
		// limits up.
		_, err := tx.exec("UPDATE namespaces_v7 SET facts = facts + 1 WHERE key = ?", r.key)
		if err != nil {
			return err
		}

		// This process caches the facts of the new generation, once it is
		// committed.
		_, err = r.requireActive(tx)
		return err
	})
}

// CreateEntity stores an entity and its audit event. The error matches
// limiter.ErrExists if there is such an entity.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		return err
	}

	ev, err = detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		var exists bool
		err := tx.row("SELECT EXISTS (SELECT 1 FROM entities WHERE ns = ? AND id = ?)", r.key, e.ID).scan(&exists)
		switch {
		case err != nil:
			return err
		case exists:
			return fmt.Errorf("entity %q: %w", e.ID, limiter.ErrExists)
		}

		// Nothing may be written before the last check.
		if err := rules.CheckPlace(&e, tx.placeIn(r.key)); err != nil {
			return err
		}

		if _, err = tx.exec(`INSERT INTO entities (ns, id, name, parent, cascade, metadata, created, generation)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			r.key, e.ID, e.Name, e.Parent, e.Cascade, string(metadata), e.CreatedAt.Unix(), e.Generation); err != nil {
			return err
		}

		// In an outage the process has to know whose switch refuses the entity.
		if _, err := r.climb(tx, e.ID, 0); err != nil {
			return err
		}
		return r.record(tx, ev)
	})
}

// entityColumns returns the columns of an entity.
func (t *tx) entityColumns() string {
	const always = "id, name, parent, cascade, metadata, created, "
	if t.schema < treesSince {
		return always + "0"
	}
	return always + "generation"
}

func (t *tx) entity(scan func(...any) error) (e limiter.Entity, err error) {
	var metadata string
	var created int64
	if err := scan(&e.ID, &e.Name, &e.Parent, &e.Cascade, &metadata, &created, &e.Generation); err != nil {
		return e, err
	}

	e.CreatedAt = time.Unix(created, 0).UTC()
	if err := json.Unmarshal([]byte(metadata), &e.Metadata); err != nil {
		return e, &limiter.CorruptError{
			Item: fmt.Sprintf("%s: entity %s", t.file.path, e.ID), Reason: "metadata: " + err.Error(),
		}
	}
	return e, nil
}

// Entity returns a stored entity. The error matches limiter.ErrNotFound if there
// is none.
func (r *Repository) Entity(ctx context.Context, id string) (e limiter.Entity, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
			return err
		}

		found := false
		err := tx.query(func(scan func(...any) error) (err error) {
			found = true
			e, err = tx.entity(scan)
			return err
		}, "SELECT "+tx.entityColumns()+" FROM entities WHERE ns = ? AND id = ?", r.key, id)
		if err == nil && !found {
			err = fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
		}
		return err
	})
	return e, err
}

// place returns where the charges of an entity go.
func (t *tx) place(ns int64, id string) (p chain.Place, err error) {
	generation := "generation"
	if t.schema < treesSince {
		generation = "0"
	}

	err = t.row("SELECT parent, cascade, "+generation+" FROM entities WHERE ns = ? AND id = ?", ns, id).
		scan(&p.Parent, &p.Cascade, &p.Generation)
	if errors.Is(err, errNoRow) {
		return p, nil
	}
	return p, err
}

// placeIn returns a function that returns the places of entities of a namespace.
func (t *tx) placeIn(ns int64) func(string) (chain.Place, error) {
	return func(id string) (chain.Place, error) { return t.place(ns, id) }
}

// parent returns the parent that an entity cascades to, or "".
func (t *tx) parent(ns int64, entity string) (string, error) {
	p, err := t.place(ns, entity)
	if err != nil || !p.Cascade {
		return "", err
	}
	return p.Parent, nil
}

// Entities iterates over the children of parent in ID order, or over all entities
// if parent is empty.
func (r *Repository) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	where, args := "ns = ?", []any{r.key}
	if parent != "" {
		where, args = where+" AND parent = ?", append(args, parent)
	}

	return rules.Pages(func(after string) (page []limiter.Entity, next *string, err error) {
		err = r.read(ctx, func(tx *tx) error {
			if _, err := r.requireActive(tx); err != nil {
				return err
			}
			return tx.query(func(scan func(...any) error) error {
				e, err := tx.entity(scan)
				page = append(page, e)
				return err
			}, "SELECT "+tx.entityColumns()+" FROM entities WHERE "+where+" AND id > ? ORDER BY id LIMIT ?",
				// Clip, since each page appends to the same arguments.
				append(slices.Clip(args), after, pageSize)...)
		})
		if err != nil {
			return nil, nil, err
		}

		if len(page) == pageSize {
			next = &page[len(page)-1].ID
		}
		return page, next, nil
	})
}

// DeleteEntity removes an entity with its limits, buckets and usage. The error
// matches limiter.ErrNotFound if nothing is stored for it.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	ev, err := detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		records, err := r.removeEntity(tx, id, ev.At)
		if err != nil {
			return err
		}

		r.sawChain(tx, 0, []string{id})
		return r.record(tx, rules.With(ev, "records_deleted", records))
	})
}

func (r *Repository) removeEntity(tx *tx, id string, now time.Time) (records int64, err error) {
	if found, err := r.hasData(tx, id, now.UnixMilli()); err != nil || !found {
		if err == nil {
			err = fmt.Errorf("entity %q: %w", id, limiter.ErrNotFound)
		}
		return 0, err
	}

	// A lease may outlive its bucket. Buckets of this entity with an ID up to the
	// last one were deleted, and did not expire, so they owe nothing.
	if _, err := tx.exec(`INSERT INTO deleted_buckets (ns, entity, last, at)
		SELECT ?, ?, coalesce(max(seq), 0), ? FROM sqlite_sequence WHERE name = 'buckets_v7'
		ON CONFLICT DO UPDATE SET last = excluded.last, at = excluded.at`, r.key, id, now.Unix()); err != nil {
		return 0, err
	}

	for _, from := range []string{
		"entities WHERE ns = ? AND id = ?", "configs WHERE ns = ? AND entity = ?",
		"buckets_v7 WHERE ns = ? AND entity = ?", "usage WHERE ns = ? AND entity = ?",
	} {
		n, err := tx.exec("DELETE FROM "+from, r.key, id)
		if err != nil {
			return 0, err
		}
		records += n
	}
	return records, nil
}

// hasData reports whether anything is stored for an entity. An expired bucket
// without usage does not count.
func (r *Repository) hasData(tx *tx, id string, now int64) (found bool, err error) {
	if err := tx.row(`SELECT EXISTS (SELECT 1 FROM entities WHERE ns = ?1 AND id = ?2)
		OR EXISTS (SELECT 1 FROM configs WHERE ns = ?1 AND entity = ?2)
		OR EXISTS (SELECT 1 FROM usage WHERE ns = ?1 AND entity = ?2)`, r.key, id).scan(&found); err != nil || found {
		return found, err
	}

	err = tx.query(func(scan func(...any) error) error {
		b, err := tx.record(scan)
		if err == nil && (b.Events > 0 || !b.Gone(now)) {
			found = true
		}
		return err
	}, "SELECT "+tx.columns()+" FROM buckets_v7 b WHERE b.ns = ? AND b.entity = ?", r.key, id)
	return found, err
}
