package sqlite

import (
	"io/fs"
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
