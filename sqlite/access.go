package sqlite

import (
	"io/fs"
	"path/filepath"
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
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if !allowed(f.path+suffix, toRead|toWrite) {
			return f.path + suffix
		}
	}
	if folder := filepath.Dir(f.path); !mayMake(folder) {
		return "folder " + folder
	}
	return ""
}
