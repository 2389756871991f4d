package sqlite

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// pageSize is the number of rows that an iterator reads at once.
const pageSize = 500

// Buckets iterates over the buckets of an entity, a resource or both, by resource,
// then entity.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return rules.Pages(func(after limiter.Scope) (page []limiter.Bucket, next *limiter.Scope, err error) {
		err = r.read(ctx, func(tx *tx) (err error) {
			page, next, err = r.bucketPage(tx, now.UnixMilli(), of, after)
			return err
		})
		return page, next, err
	})
}

// bucketPage reads the buckets that follow after.
func (r *Repository) bucketPage(
	tx *tx, now int64, of, after limiter.Scope,
) (page []limiter.Bucket, next *limiter.Scope, err error) {
	generation, err := r.requireActive(tx)
	if err != nil {
		return nil, nil, err
	}

	where, args := scopeCondition(r.key, of)
	var records []*record
	err = tx.query(func(scan func(...any) error) error {
		rec, err := tx.record(scan)
		records = append(records, rec)
		return err
	}, "SELECT "+tx.columns()+" FROM buckets_v7 b WHERE "+where+" AND (resource, entity) > (?, ?) ORDER BY "+
		"resource, entity LIMIT ?",
		append(args, after.Resource, after.Entity, pageSize)...)
	if err != nil {
		return nil, nil, err
	}

	if page, err = r.currentViews(tx, now, records, generation); err != nil {
		return nil, nil, err
	}

	if len(records) == pageSize {
		last := records[len(records)-1].Account
		next = &limiter.Scope{Entity: last.Entity, Resource: last.Resource}
	}
	return page, next, nil
}

// currentViews returns the buckets that have not expired as the next charge would
// find them.
func (r *Repository) currentViews(
	tx *tx, now int64, records []*record, generation int64,
) (views []limiter.Bucket, err error) {
	for _, rec := range records {
		local, back := r.machine.Local(&rec.Bucket, now)
		if rec.Gone(local) {
			continue
		}

		rec.PullBack(back)
		b, err := r.currentView(tx, local, rec, generation)
		if err != nil {
			return nil, err
		}
		views = append(views, b)
	}
	return views, nil
}

// currentView returns the bucket as the next charge would find it.
func (r *Repository) currentView(tx *tx, now int64, rec *record, generation int64) (limiter.Bucket, error) {
	// A repair moves the bucket's time, so this comes first.
	updated, held := rec.At, true

	// The limits have changed since the last charge. The next one will repair
	// the bucket like this.
	if rec.generation != generation {
		key := limiter.Scope{Entity: rec.Account.Entity, Resource: rec.Account.Resource}
		limits, source, err := tx.resolve(r.key, key)
		if err != nil {
			return limiter.Bucket{}, err
		}
		if held = limits != nil; held {
			account := *rec.Account
			account.Limits, account.Source = limits, source
			if _, err := rec.Repair(now, &account, 0, rules.NoBook); err != nil {
				return limiter.Bucket{}, err
			}
		}
	}

	seen := rules.Begin(&rec.Bucket, now).View

	// Without limits at any level, the bucket shows those it was last charged
	// with.
	if !held {
		seen.Account = rules.WithoutLevel(seen.Account)
	}

	seen.Updated = updated
	return seen, nil
}
