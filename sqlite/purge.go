package sqlite

import (
	"context"
	"time"
)

// PurgeNamespace destroys the data of a deleted namespace. It removes a part in
// each transaction, so that other calls can write in between. The error matches
// limiter.ErrNotFound for an unknown ID and limiter.ErrConflict for an active
// namespace.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	key, err := r.beginPurge(ctx, id)
	if err != nil {
		return err
	}

	items := 0
	for done := false; !done; {
		removed, err := writeValue(ctx, r.file, time.Time{}, func(tx *tx) (int, error) { return tx.purge(key) })
		if err != nil {
			return err
		}
		if done = removed == 0; !done {
			items += removed
			r.reportPurged(items)
		}
	}
	return nil
}

// beginPurge marks a deleted namespace as purging. It cannot be recovered then.
func (r *Repository) beginPurge(ctx context.Context, id string) (key int64, err error) {
	return writeValue(ctx, r.file, time.Time{}, func(tx *tx) (int64, error) {
		s, err := tx.deletedNamespace(id)
		if err != nil {
			return 0, err
		}

		// A namespace that has lost some of its data must not be recovered.
		_, err = tx.exec("UPDATE namespaces_v7 SET purging = 1 WHERE key = ?", s.key)
		return s.key, err
	})
}

// purge removes some rows of a namespace and returns their number. When none are
// left, it removes the namespace and returns 0.
func (t *tx) purge(key int64) (removed int, err error) {
	const part = 2000

	// One kind of rows is removed at a time, so that a transaction stays short.
	for _, delete := range []string{
		"DELETE FROM buckets_v7 WHERE rowid IN (SELECT rowid FROM buckets_v7 WHERE ns = ? LIMIT ?)",
		"DELETE FROM usage WHERE rowid IN (SELECT rowid FROM usage WHERE ns = ? LIMIT ?)",
		"DELETE FROM audit WHERE rowid IN (SELECT rowid FROM audit WHERE ns = ? LIMIT ?)",
		"DELETE FROM configs WHERE (ns, entity, resource) IN (SELECT ns, entity, resource FROM configs WHERE " +
			"ns = ? LIMIT ?)",
		"DELETE FROM entities WHERE (ns, id) IN (SELECT ns, id FROM entities WHERE ns = ? LIMIT ?)",
		"DELETE FROM deleted_buckets WHERE (ns, entity) IN (SELECT ns, entity FROM deleted_buckets WHERE ns " +
			"= ? LIMIT ?)",
		"DELETE FROM switches WHERE (ns, entity, resource) IN (SELECT ns, entity, resource FROM switches " +
			"WHERE ns = ? LIMIT ?)",
		"DELETE FROM top_ups WHERE (ns, entity, resource, id) IN (SELECT ns, entity, resource, id FROM " +
			"top_ups WHERE ns = ? LIMIT ?)",
		"DELETE FROM managed WHERE ns IN (SELECT ns FROM managed WHERE ns = ? LIMIT ?)",
	} {
		if n, err := t.exec(delete, key, part); err != nil || n > 0 {
			return int(n), err
		}
	}

	_, err = t.exec("DELETE FROM namespaces_v7 WHERE key = ?", key)
	return 0, err
}

// reportPurged calls Options.Purged for one purge at a time.
func (f *file) reportPurged(items int) {
	if f.opts.Purged == nil {
		return
	}

	f.purgedMu.Lock()
	defer f.purgedMu.Unlock()
	f.opts.Purged(items)
}
