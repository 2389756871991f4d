package sqlite

import (
	"context"
	"database/sql"
	"os"
)

// openReaders opens the connections for reading.
func (f *file) openReaders(ctx context.Context) error {
	const readers = 4
	var err error
	for _, mode := range f.readerModes(ctx) {
		if f.readers, err = sql.Open("sqlite", f.dsn(mode...)); err != nil {
			return err
		}
		f.readers.SetMaxOpenConns(readers)
		f.readers.SetMaxIdleConns(readers)
		// The next mode can help only if the file could not be opened.
		if err = f.read(ctx, f.checkSchema); err == nil || !isCantOpen(err) {
			return err
		}
		_ = f.readers.Close()
	}
	return err
}

// readerModes returns the ways to open the file for reading, in the order to try
// them. A connection that may write removes the log and the shared memory when it
// is the last to close. A read-only connection would leave the files it created,
// and block users that may write. It therefore joins an existing log, or opens
// the file as immutable.
func (f *file) readerModes(ctx context.Context) [][]string {
	// The writer closes after the readers and removes the log, so that they
	// need not write.
	if !f.opts.ReadOnly {
		return [][]string{{"mode=ro"}}
	}

	joined, immutable := []string{"mode=ro", "readonly_shm=1"}, []string{"mode=ro", "immutable=1"}
	var modes [][]string

	// Such a connection removes the log when it closes, which must not happen
	// to a file of another program.
	if info, err := os.Stat(f.path); err == nil && canWrite(f.path, info) && f.hasApplicationID(ctx) {
		modes = append(modes, []string{"mode=rw", "_pragma=query_only(1)"})
	}

	log, err := os.Stat(logPath(f.path))
	if err == nil {
		modes = append(modes, joined)
	}

	// A connection to an immutable file ignores the log, which may hold commits
	// that the file lacks.
	if err != nil || log.Size() == 0 {
		modes = append(modes, immutable)
	}
	return modes
}

// hasApplicationID reports whether the file is a store. Closing a connection to
// another program's file must not remove its log. The check uses SQLite, because
// closing our own descriptor would drop all locks of this process on the file.
func (f *file) hasApplicationID(ctx context.Context) bool {
	db, err := sql.Open("sqlite", f.dsn("mode=ro", "immutable=1"))
	if err != nil {
		return false
	}
	defer func() { _ = db.Close() }()

	var id int
	err = db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id)
	return err == nil && id == applicationID
}
