package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/zeroae/zae-limiter-go"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// code is the primary result code of a database error, 0 for another error.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool { c := code(err); return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED }

func isFull(err error) bool { return code(err) == lib.SQLITE_FULL }

func isCantOpen(err error) bool {
	c := code(err)
	return c == lib.SQLITE_CANTOPEN || c == lib.SQLITE_READONLY
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*limiter.CorruptError](err)
	return ok
}

// explain turns errors of the database into those of the port, and the rest
// into a sentence with the file in it.
func (f *file) explain(err error) error {
	if err == nil {
		return nil
	}
	if err.Error() == "sql: database is closed" { // database/sql has no sentinel for it
		return limiter.ErrClosed
	}
	switch code(err) {
	case 0:
		return err
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return &limiter.CorruptError{Item: f.path, Reason: err.Error()}
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("sqlite: %s is locked by another process for longer than %s: %w", f.path, f.opts.BusyTimeout, err)
	case lib.SQLITE_READONLY: // no outage: it will not pass by itself, and Allow must not wave it through
		return fmt.Errorf("sqlite: %s cannot be written: %w: %w; make %s writable, or open it only to read (%w)",
			f.path, fs.ErrPermission, limiter.ErrConflict, cmp.Or(f.denied(), "it"), err)
	case lib.SQLITE_CANTOPEN:
		if closed := f.denied(); closed != "" {
			return fmt.Errorf("sqlite: %s cannot be opened: %w: make %s readable and writable for this user (%w)", f.path, fs.ErrPermission, closed, err)
		}
		return fmt.Errorf("sqlite: %s cannot be opened; are the file and its folder readable and writable? %w", f.path, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("sqlite: the disk of %s is full; free some space: %w", f.path, err)
	}
	return fmt.Errorf("sqlite: %s: %w", f.path, err)
}
