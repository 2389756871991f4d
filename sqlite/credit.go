package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Credit gives tokens back or takes more. It skips buckets that were deleted. For
// an expired bucket it gives nothing back, and charges what it takes to the
// bucket that replaces it.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	// The work may outlive its caller, so it shares no memory with it.
	credits = slices.Clone(credits)
	for i := range credits {
		credits[i].Spared, credits[i].Starts = slices.Clone(credits[i].Spared), slices.Clone(credits[i].Starts)
	}

	return r.write(ctx, now, func(tx *tx) error {
		// All credits are checked before the first one writes: work that
		// returns an error must have written nothing.
		for _, c := range credits {
			if id, _ := c.Account.Ref.(int64); id == 0 {
				return &limiter.InvalidError{
					Field: "account", Value: c.Account.Entity, Reason: "must come from this store",
				}
			}
		}

		for _, c := range credits {
			if err := r.credit(tx, now.UnixMilli(), c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Repository) credit(tx *tx, now int64, c limiter.Credit) error {
	id, _ := c.Account.Ref.(int64)
	found, err := tx.bucket("b.id = ?", id)
	if err != nil {
		return err
	}

	if found != nil {
		local, back := r.machine.Local(&found.Bucket, now)
		if !found.Gone(local) {
			found.PullBack(back)
			amounts := found.InWindow(&c, local)
			if err := found.Credit(local, &amounts, c.Spared, c.Account.Limits, tx.book(r.key)); err != nil {
				return err
			}
			return tx.save(r.key, found, false)
		}
	}

	// An expired bucket was full, so giving back adds nothing. Its replacement owes
	// what the credit takes.
	takes, some := rules.Takes(&c.Amounts)
	if !some {
		return nil
	}

	// Nothing is owed to a bucket that was deleted on purpose.
	if deleted, err := tx.wasDeleted(r.key, c.Account.Entity, id); err != nil || deleted {
		return err
	}

	return r.takeFromReplacement(tx, now, c.Account, &takes, c.Spared)
}

// wasDeleted reports whether a bucket was deleted with its entity or namespace, as
// opposed to expired.
func (t *tx) wasDeleted(ns int64, entity string, id int64) (bool, error) {
	var deleted bool
	err := t.row(`SELECT NOT EXISTS (SELECT 1 FROM namespaces_v7 WHERE key = ? AND NOT purging)
		OR EXISTS (SELECT 1 FROM deleted_buckets WHERE ns = ? AND entity = ? AND last >= ?)`, ns, ns, entity,
		id).scan(&deleted)
	return deleted, err
}

// takeFromReplacement takes amounts of an expired bucket from the bucket that
// replaced it. If there is none, it creates one under the current limits, or
// under those of the lease.
func (r *Repository) takeFromReplacement(
	tx *tx, now int64, account *limiter.Account, takes *limiter.Amounts, spared []string,
) error {
	current, err := tx.bucket("b.ns = ? AND b.entity = ? AND b.resource = ?", r.key, account.Entity, account.Resource)
	if err != nil {
		return err
	}

	// The replacement may have expired as well. Or there is none, and this is the
	// row of the expired bucket itself.
	local := now
	if current != nil {
		var back int64
		if local, back = r.machine.Local(&current.Bucket, now); !current.Gone(local) {
			current.PullBack(back)
		} else if err := tx.expire(r.key, current); err != nil {
			return err
		} else {
			current, local = nil, now
		}
	}

	if current == nil {
		next := *account
		limits, source, err := tx.resolve(r.key, limiter.Scope{Entity: account.Entity, Resource: account.Resource})
		if err != nil {
			return err
		}

		// Without stored limits, those of the lease apply.
		if limits != nil {
			next.Limits, next.Source, next.Default = limits, source, false
		}

		if err := rules.CheckZones(next.Limits); err != nil {
			return err
		}

		// Its generation is 0, so the next charge looks up limits and parent.
		current = &record{Bucket: rules.New(now, &next, rules.Idle(next.Limits, next.Source, r.ttl))}
	}

	if err := current.Credit(local, takes, spared, account.Limits, tx.book(r.key)); err != nil {
		return err
	}
	return tx.save(r.key, current, current.id == 0)
}

// bucket returns the bucket that a condition selects, or nil.
func (t *tx) bucket(where string, args ...any) (found *record, err error) {
	err = t.query(func(scan func(...any) error) (err error) {
		found, err = t.record(scan)
		return err
	}, "SELECT "+t.columns()+" FROM buckets_v7 b WHERE "+where, args...)
	return found, err
}

// expire removes a bucket and books its usage.
func (t *tx) expire(ns int64, r *record) error {
	if err := r.Flush(t.book(ns)); err != nil {
		return err
	}
	_, err := t.exec("DELETE FROM buckets_v7 WHERE id = ?", r.id)
	return err
}
