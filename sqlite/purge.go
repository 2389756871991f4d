package sqlite

import (
	"context"
	"time"
)

// PurgeNamespace destroys the data of a deleted namespace, a part at a time so
// that others can write in between.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	key, err := r.beginPurge(ctx, id)
	if err != nil {
		return err
	}
	items := 0
	for done := false; !done; {
		removed, err := writing(ctx, r.file, time.Time{}, func(tx *tx) (int, error) { return tx.purge(key) })
		if err != nil {
			return err
		}
		if done = removed == 0; !done {
			items += removed
			r.tellPurged(items)
		}
	}
	return nil
}

// beginPurge moves a namespace that is deleted to purging, from where there is
// no way back.
func (r *Repository) beginPurge(ctx context.Context, id string) (key int64, err error) {
	return writing(ctx, r.file, time.Time{}, func(tx *tx) (int64, error) {
		s, err := tx.deletedSpace(id)
		if err != nil {
			return 0, err
		}
		_, err = tx.exec("UPDATE namespaces SET purging = 1 WHERE key = ?", s.key)
		return s.key, err
	})
}

// purge removes a part of the rows of a namespace and tells how many, or the
// namespace itself when there are no more.
func (t *tx) purge(key int64) (removed int, err error) {
	const part = 2000
	for _, delete := range []string{
		"DELETE FROM buckets WHERE rowid IN (SELECT rowid FROM buckets WHERE ns = ? LIMIT ?)",
		"DELETE FROM usage WHERE rowid IN (SELECT rowid FROM usage WHERE ns = ? LIMIT ?)",
		"DELETE FROM audit WHERE rowid IN (SELECT rowid FROM audit WHERE ns = ? LIMIT ?)",
		"DELETE FROM configs WHERE (ns, entity, resource) IN (SELECT ns, entity, resource FROM configs WHERE ns = ? LIMIT ?)",
		"DELETE FROM entities WHERE (ns, id) IN (SELECT ns, id FROM entities WHERE ns = ? LIMIT ?)",
		"DELETE FROM deleted_buckets WHERE (ns, entity) IN (SELECT ns, entity FROM deleted_buckets WHERE ns = ? LIMIT ?)",
		"DELETE FROM managed WHERE ns IN (SELECT ns FROM managed WHERE ns = ? LIMIT ?)",
	} {
		if n, err := t.exec(delete, key, part); err != nil || n > 0 {
			return int(n), err
		}
	}
	_, err = t.exec("DELETE FROM namespaces WHERE key = ?", key)
	return 0, err
}

// tellPurged calls Purged, for one purge at a time.
func (f *file) tellPurged(items int) {
	if f.opts.Purged == nil {
		return
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	f.opts.Purged(items)
}
