package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// The first versions that have a table for it, and the owner in it. An older
// file that is only read has none.
const managedSince, ownedSince = 2, 3

// Managed are the scopes that a manifest rules, with the hash and the owner
// stored with them. *CorruptError if it is the scopes that cannot be read.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.facts(tx); err != nil {
			return err
		}
		_, version, _, err := tx.version()
		if err != nil || version < managedSince {
			return err
		}
		column := "owner"
		if version < ownedSince {
			column = "''"
		}
		stored, err := tx.managed(r.key, column)
		scopes, hash, owner = stored.Scopes, stored.Hash, stored.Owner
		return err
	})
	return scopes, hash, owner, err
}

// SetManaged replaces all three, if previous is the stored hash; ErrConflict.
func (r *Repository) SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
	scopes = slices.Clone(scopes)
	return r.write(ctx, now, func(tx *tx) error {
		if _, err := r.facts(tx); err != nil {
			return err
		}
		stored, err := tx.managed(r.key, "owner")
		if err != nil && !isCorrupt(err) { // a damaged list may be replaced
			return err
		}
		next, err := stored.Replace(previous, hash, owner, scopes)
		if err != nil {
			return err
		}
		list, err := json.Marshal(pairs(next.Scopes))
		if err != nil {
			return err
		}
		_, err = tx.exec(`INSERT INTO managed (ns, hash, applied, scopes, owner) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET hash = excluded.hash, applied = excluded.applied, scopes = excluded.scopes, owner = excluded.owner`,
			r.key, next.Hash, now.Unix(), string(list), next.Owner)
		return err
	})
}

// managed is what is stored, with the owner from a column that the file has.
func (t *tx) managed(ns int64, owner string) (rules.Managed, error) {
	var m rules.Managed
	var list string
	err := t.row("SELECT hash, scopes, "+owner+" FROM managed WHERE ns = ?", ns).scan(&m.Hash, &list, &m.Owner)
	if errors.Is(err, errNoRow) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	var read [][2]string
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return m, &limiter.CorruptError{Item: fmt.Sprintf("%s: list of what a manifest manages", t.file.path), Reason: err.Error()}
	}
	for _, p := range read {
		m.Scopes = append(m.Scopes, limiter.Scope{Entity: p[0], Resource: p[1]})
	}
	return m, nil
}

// pairs is how scopes are stored.
func pairs(scopes []limiter.Scope) [][2]string {
	all := make([][2]string, 0, len(scopes))
	for _, s := range scopes {
		all = append(all, [2]string{s.Entity, s.Resource})
	}
	return all
}
