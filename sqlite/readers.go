package sqlite

import (
	"context"
	"database/sql"
	"os"
)

// openReaders opens the connections that only read.
func (f *file) openReaders(ctx context.Context) error {
	const readers = 4
	var err error
	for _, mode := range f.readerModes(ctx) {
		if f.readers, err = sql.Open("sqlite", f.dsn(mode...)); err != nil {
			return err
		}
		f.readers.SetMaxOpenConns(readers)
		f.readers.SetMaxIdleConns(readers)
		if err = f.read(ctx, f.checkOpen); err == nil || !isCantOpen(err) {
			return err
		}
		_ = f.readers.Close()
	}
	return err
}

// readerModes are the ways to open the file for reading, to be tried in this
// order. A connection that may write takes log and shared memory away when it
// is the last one to close. One that may not leaves what it made, in the way of
// those who may write: so it joins a log that is there, or else reads the file
// as it lies.
func (f *file) readerModes(ctx context.Context) [][]string {
	if !f.opts.ReadOnly { // the writer closes after the readers
		return [][]string{{"mode=ro"}}
	}
	joined, asItLies := []string{"mode=ro", "readonly_shm=1"}, []string{"mode=ro", "immutable=1"}
	var modes [][]string
	if info, err := os.Stat(f.path); err == nil && mayWrite(f.path, info) && f.isOurs(ctx) {
		modes = append(modes, []string{"mode=rw", "_pragma=query_only(1)"})
	}
	log, err := os.Stat(logPath(f.path))
	if err == nil {
		modes = append(modes, joined)
	}
	if err != nil || log.Size() == 0 { // else commits wait there, and the file alone is not what was stored
		modes = append(modes, asItLies)
	}
	return modes
}

// isOurs reports whether the file says so: closing the file of another program
// must not tidy it up. It asks through SQLite: closing a descriptor of our own
// would drop every lock that this process has on the file.
func (f *file) isOurs(ctx context.Context) bool {
	db, err := sql.Open("sqlite", f.dsn("mode=ro", "immutable=1"))
	if err != nil {
		return false
	}
	defer func() { _ = db.Close() }()
	var id int
	err = db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id)
	return err == nil && id == applicationID
}
