package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/zeroae/zae-limiter-go"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// code returns the primary result code of a database error, or 0.
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

// explain translates a database error into an error of package limiter, or adds
// the path of the file.
func (f *file) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}

	// Package database/sql has no variable for this error.
	if err.Error() == "sql: database is closed" {
		return limiter.ErrClosed
	}

	switch code(err) {
	case 0:
		return err
	case lib.SQLITE_ERROR: // such as a missing table
		// The check must be made even if the caller's context has ended.
		if newer := f.checkNotUpgraded(context.WithoutCancel(ctx)); newer != nil {
			return newer
		}
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return &limiter.CorruptError{Item: f.path, Reason: err.Error()}
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("sqlite: %s has been locked by another process for more than %s: %w", f.path,
			f.opts.BusyTimeout, err)
	// This is permanent and no outage, so that Allow does not admit the call.
	case lib.SQLITE_READONLY:
		return fmt.Errorf("sqlite: cannot write %s: %w: %w; make %s writable, or open it read-only (%w)",
			f.path, fs.ErrPermission, limiter.ErrConflict, cmp.Or(f.deniedPath(), "it"), err)
	case lib.SQLITE_CANTOPEN:
		if denied := f.deniedPath(); denied != "" {
			return fmt.Errorf("sqlite: cannot open %s: %w; make %s readable and writable for this user (%w)",
				f.path, fs.ErrPermission, denied, err)
		}
		return fmt.Errorf("sqlite: cannot open %s: %w; the file and its folder must be readable and writable",
			f.path, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("sqlite: the disk of %s is full: %w; free some space", f.path, err)
	}
	return fmt.Errorf("sqlite: %s: %w", f.path, err)
}

// checkNotUpgraded returns a *limiter.VersionError if a newer version of this
// program has migrated the file since it was opened.
func (f *file) checkNotUpgraded(ctx context.Context) error {
	if f.readers == nil {
		return nil
	}

	application, version, tables, err := (&tx{ctx: ctx, on: f.readers, file: f}).version()
	if err != nil {
		return nil //nolint:nilerr // the error that the caller has is the one to report
	}
	return checkVersion(f.path, application, version, tables)
}
