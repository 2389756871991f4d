package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Fill resets or tops up a bucket, and stores the audit event.
func (r *Repository) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	// The work may outlive its caller, so it shares no memory with it.
	f.Limits, f.Defaults = slices.Clone(f.Limits), slices.Clone(f.Defaults)
	if ev, err = detach(ev); err != nil {
		return false, err
	}

	return writeValue(ctx, r.file, now, func(tx *tx) (bool, error) {
		if _, err := r.requireActive(tx); err != nil {
			return false, err
		}

		if used, err := tx.usedTopUp(r.key, now.UnixMilli(), &f); err != nil || used {
			return false, err
		}

		limits, err := r.fill(tx, now.UnixMilli(), &f)
		if err != nil {
			return false, err
		}

		if err := tx.rememberTopUp(r.key, now, &f); err != nil {
			return false, err
		}
		return true, r.record(tx, rules.FillEvent(ev, &f, limits))
	})
}

// usedTopUp reports whether the top-up was carried out before.
func (t *tx) usedTopUp(ns, now int64, f *limiter.Fill) (used bool, err error) {
	if f.ID == "" {
		return false, nil
	}

	err = t.row("SELECT expires > ? FROM top_ups WHERE ns = ? AND entity = ? AND resource = ? AND id = ?",
		now, ns, f.Entity, f.Resource, f.ID).scan(&used)
	if errors.Is(err, errNoRow) {
		return false, nil
	}
	return used, err
}

// rememberTopUp stores the ID of a top-up for limiter.TopUpLife.
func (t *tx) rememberTopUp(ns int64, now time.Time, f *limiter.Fill) error {
	if f.ID == "" {
		return nil
	}

	_, err := t.exec("INSERT OR REPLACE INTO top_ups (ns, entity, resource, id, expires) VALUES (?, ?, ?, ?, ?)",
		ns, f.Entity, f.Resource, f.ID, now.Add(limiter.TopUpLife).UnixMilli())
	return err
}

// fill fills the bucket, if there is one, and returns its limits.
func (r *Repository) fill(tx *tx, now int64, f *limiter.Fill) ([]limiter.Limit, error) {
	key := limiter.Scope{Entity: f.Entity, Resource: f.Resource}

	found, err := tx.bucket("b.ns = ? AND b.entity = ? AND b.resource = ?", r.key, key.Entity, key.Resource)
	if err != nil {
		return nil, err
	}

	var local, back int64
	if found != nil {
		if local, back = r.machine.Local(&found.Bucket, now); found.Gone(local) {
			found = nil
		}
	}

	account, err := r.fillAccount(tx, key, found, f.Defaults)
	if err != nil {
		return nil, err
	}

	if err = rules.CheckFill(f, account.Limits); err == nil {
		err = rules.CheckZones(account.Limits)
	}

	// A missing bucket starts full.
	if err != nil || found == nil {
		return account.Limits, err
	}

	found.PullBack(back)

	// Where no limits are in force, the bucket keeps its own.
	if account != found.Account {
		if _, err := found.Repair(
			local, account, rules.Idle(account.Limits, account.Source, r.ttl), tx.book(r.key),
		); err != nil {
			return nil, err
		}
	}

	found.Fill(local, f)
	return account.Limits, tx.save(r.key, found, true)
}

// fillAccount returns the account with the limits in force: the stored ones, or
// the defaults, or the limits that the bucket has.
func (r *Repository) fillAccount(
	tx *tx, key limiter.Scope, found *record, defaults []limiter.Limit,
) (*limiter.Account, error) {
	limits, source, err := tx.resolve(r.key, key)
	if err != nil {
		return nil, err
	}

	account := &limiter.Account{Entity: key.Entity, Resource: key.Resource, Limits: limits, Source: source}
	if found != nil {
		account.Ref = found.id
	}

	switch {
	case limits != nil:
	case len(defaults) > 0:
		account.Default = true
		account.Limits = rules.Defaults(defaults, nil)
		if found != nil {
			account.Limits = rules.Defaults(defaults, found.Account.Limits)
		}
	case found != nil:
		return found.Account, nil
	default:
		return nil, rules.NoLimits(key.Entity, key.Resource)
	}
	return account, nil
}
