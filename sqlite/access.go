package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Modes of access(2).
const (
	accessSearch = 1
	accessWrite  = 2
	accessRead   = 4
)

// canRead reports whether this user may read a file.
func canRead(path string) bool { return allowed(path, accessRead) }

// canCreateIn reports whether this user may create files in a folder.
func canCreateIn(folder string) bool { return allowed(folder, accessWrite|accessSearch) }

// canWrite reports whether this user may write to a file. A file without any
// write bit is read-only for root, too.
func canWrite(path string, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o222 != 0 && allowed(path, accessRead|accessWrite)
}

// create creates the file with its permissions if it is missing and Open may create
// it. SQLite would create one that all users can read. The empty file gets its name
// when it is closed: closing a descriptor drops all locks that this process holds on
// the file, and another call may open it as soon as it has the name.
func (f *file) create() error {
	if _, err := os.Stat(f.path); !f.opts.mayCreate() || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	empty, err := os.CreateTemp(filepath.Dir(f.path), ".zae-limiter-*")
	if err == nil {
		// The umask may have removed permissions that the options ask for.
		err = errors.Join(empty.Chmod(f.opts.Mode), empty.Close())
	}
	if err == nil {
		err = os.Link(empty.Name(), f.path)
	}
	if empty != nil {
		_ = os.Remove(empty.Name())
	}

	// Not every file system has links.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if empty, err = os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.opts.Mode); err == nil {
			err = errors.Join(empty.Chmod(f.opts.Mode), empty.Close())
		}
	}

	// Another process may have been faster, or the path is a link.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("sqlite: cannot create file %s: %w", f.path, err)
	}
	return nil
}

// deniedPath returns the path that this user may not write: the file, its folder,
// or a log that another user left. It returns "" if there is none.
func (f *file) deniedPath() string {
	log := logPath(f.path)
	for _, path := range []string{f.path, log, strings.TrimSuffix(log, "-wal") + "-shm"} {
		if !allowed(path, accessRead|accessWrite) {
			return path
		}
	}

	if folder := filepath.Dir(log); !canCreateIn(folder) {
		return "folder " + folder
	}
	return ""
}
