//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"syscall"
)

// allowed reports whether this user has access to the file at path, or whether the
// file is missing. It does not open the file: closing a descriptor would drop all
// locks that this process holds on it.
func allowed(path string, mode uint32) bool {
	err := syscall.Access(path, mode)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
