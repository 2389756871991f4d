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

// The first schema versions that have the table managed, and the column owner in
// it. An older file that is opened read-only may lack them.
const managedSince, ownedSince = 2, 3

// Managed returns the scopes that a manifest manages, its hash and its owner. If
// the stored list of scopes is damaged, it returns the hash, the owner and a
// *limiter.CorruptError.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	err = r.read(ctx, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
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

// SetManaged replaces the scopes, the hash and the owner if previous is the stored
// hash. Otherwise the error matches limiter.ErrConflict.
func (r *Repository) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	// The work may outlive its caller, so it shares no memory with it.
	scopes = slices.Clone(scopes)
	return r.write(ctx, now, func(tx *tx) error {
		if _, err := r.requireActive(tx); err != nil {
			return err
		}

		stored, err := tx.managed(r.key, "owner")
		// A damaged list can be replaced.
		if err != nil && !isCorrupt(err) {
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
			ON CONFLICT DO UPDATE SET hash = excluded.hash, applied = excluded.applied, scopes = excluded.scopes,
				owner = excluded.owner`,
			r.key, next.Hash, now.Unix(), string(list), next.Owner)
		return err
	})
}

// managed reads the record of a namespace. ownerColumn is an expression for the
// owner, since an older file has no such column.
func (t *tx) managed(ns int64, ownerColumn string) (rules.Managed, error) {
	var m rules.Managed
	var list string
	err := t.row("SELECT hash, scopes, "+ownerColumn+" FROM managed WHERE ns = ?", ns).scan(&m.Hash, &list, &m.Owner)
	if errors.Is(err, errNoRow) {
		return m, nil
	}
	if err != nil {
		return m, err
	}

	var read [][2]string
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return m, &limiter.CorruptError{
			Item: fmt.Sprintf("%s: list of managed scopes", t.file.path), Reason: err.Error(),
		}
	}

	for _, p := range read {
		m.Scopes = append(m.Scopes, limiter.Scope{Entity: p[0], Resource: p[1]})
	}
	return m, nil
}

// pairs returns scopes in their stored form.
func pairs(scopes []limiter.Scope) [][2]string {
	all := make([][2]string, 0, len(scopes))
	for _, s := range scopes {
		all = append(all, [2]string{s.Entity, s.Resource})
	}
	return all
}

// ReplaceConfig replaces the config of a scope as a whole, and stores the audit
// event.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	next := rules.Merged(limiter.Config{}, cfg)
	limits, err := json.Marshal(next.Limits)
	if err != nil {
		return err
	}

	ev, err = detach(ev)
	if err != nil {
		return err
	}

	return r.change(ctx, ev.At, func(tx *tx) error {
		if _, err := tx.exec(
			`INSERT OR REPLACE INTO configs (ns, entity, resource, limits, on_unavailable) VALUES (?, ?, ?, ?, ?)`,
			r.key, next.Scope.Entity, next.Scope.Resource, string(limits), string(next.OnUnavailable),
		); err != nil {
			return err
		}

		// The change is written by now, so that an error has to fail the
		// transaction.
		if err := r.repairBucket(tx, ev.At.UnixMilli(), next.Scope); err != nil {
			return tx.fail(err)
		}
		return r.record(tx, ev)
	})
}
