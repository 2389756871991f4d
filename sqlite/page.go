package sqlite

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// BucketPage returns the next buckets by entity, then resource. It reads only
// these, in the order of an index.
func (r *Repository) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	var page limiter.BucketPage
	err := r.read(ctx, func(tx *tx) error {
		generation, err := r.requireActive(tx)
		if err != nil {
			return err
		}

		after, size, err := rules.StartPage(q)
		if err != nil {
			return err
		}

		page, err = r.pageAfter(tx, now.UnixMilli(), q.Prefix, after, size, generation)
		return err
	})
	return page, err
}

func (r *Repository) pageAfter(
	tx *tx, now int64, prefix string, after rules.Position, size int, generation int64,
) (page limiter.BucketPage, err error) {
	// One row more shows whether there is another page.
	query, args := pageQuery(tx.columns(), r.key, prefix, after, size+1)
	var records []*record
	damaged := map[*record]bool{}

	err = tx.query(func(scan func(...any) error) error {
		rec, err := tx.record(scan)
		records = append(records, rec)
		// A damaged bucket must not hide the others.
		if isCorrupt(err) {
			damaged[rec] = true
			return nil
		}
		return err
	}, query, args...)
	if err != nil {
		return page, err
	}

	if len(records) > size {
		records = records[:size]
		last := records[size-1].Account
		page.Next = rules.Position{Entity: last.Entity, Resource: last.Resource}.Cursor()
	}

	page.Scanned = len(records)
	for _, rec := range records {
		var views []limiter.Bucket
		if !damaged[rec] {
			views, err = r.currentViews(tx, now, []*record{rec}, generation)
		}

		switch {
		// Its own row is damaged, or the limits in force are.
		case damaged[rec] || isCorrupt(err):
			page.Damaged = append(page.Damaged, limiter.Scope{
				Entity: rec.Account.Entity, Resource: rec.Account.Resource,
			})
		case err != nil:
			return limiter.BucketPage{}, err
		default:
			page.Buckets = append(page.Buckets, views...)
		}
	}
	return page, nil
}

// pageQuery returns the query for the rows of a page, and its arguments. Names are
// compared by their bytes.
func pageQuery(columns string, ns int64, prefix string, after rules.Position, rows int) (string, []any) {
	const afterAllResources = "\xff" // in no name
	entity, resource := max(prefix, after.Entity), ""

	// A cursor without a resource has passed all buckets of its entity.
	if after.Entity != "" {
		if resource = after.Resource; resource == "" {
			resource = afterAllResources
		}
	}

	query, args := "SELECT "+columns+" FROM buckets_v7 b WHERE ns = ? AND (entity, resource) > (?, ?)",
		[]any{ns, entity, resource}
	if end := prefixEnd(prefix); end != "" {
		query, args = query+" AND entity < ?", append(args, end)
	}

	return query + " ORDER BY entity, resource LIMIT ?", append(args, rows)
}

// prefixEnd returns the first string after all strings with a prefix, or "" if
// there is none.
func prefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return string(end[:i+1])
		}
	}
	return ""
}

// BucketsAt returns the buckets at keys, as of one moment.
func (r *Repository) BucketsAt(
	ctx context.Context, now time.Time, keys []limiter.Scope,
) (found []limiter.Bucket, err error) {
	err = r.read(ctx, func(tx *tx) error {
		generation, err := r.requireActive(tx)
		if err != nil {
			return err
		}

		found = make([]limiter.Bucket, len(keys))
		for i, key := range keys {
			if found[i], err = r.bucketAt(tx, now.UnixMilli(), key, generation); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (r *Repository) bucketAt(
	tx *tx, now int64, key limiter.Scope, generation int64,
) (found limiter.Bucket, err error) {
	var records []*record
	err = tx.query(func(scan func(...any) error) error {
		rec, err := tx.record(scan)
		records = append(records, rec)
		return err
	}, "SELECT "+tx.columns()+" FROM buckets_v7 b WHERE ns = ? AND entity = ? AND resource = ?", r.key, key.Entity,
		key.Resource)
	if err != nil {
		return found, err
	}

	views, err := r.currentViews(tx, now, records, generation)
	if len(views) > 0 {
		found = views[0]
	}
	return found, err
}
