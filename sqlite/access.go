package sqlite

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// Bits of access(2).
const (
	toSearch = 1
	toWrite  = 2
	toRead   = 4
)

func mayRead(path string) bool { return allowed(path, toRead) }

func mayMake(folder string) bool { return allowed(folder, toWrite|toSearch) }

// mayWrite reports whether this user may write to a file. Mode bits that let no
// one write are for root to respect, too.
func mayWrite(path string, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o222 != 0 && allowed(path, toRead|toWrite)
}

// denied is what keeps this user from writing: the file, its folder, or what
// another user left beside it; "" if it is none of them.
func (f *file) denied() string {
	log := logPath(f.path)
	for _, path := range []string{f.path, log, strings.TrimSuffix(log, "-wal") + "-shm"} {
		if !allowed(path, toRead|toWrite) {
			return path
		}
	}
	if folder := filepath.Dir(log); !mayMake(folder) {
		return "folder " + folder
	}
	return ""
}
