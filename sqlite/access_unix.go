//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"syscall"
)

// allowed reports whether the system lets this user have such access to what is
// at path. It opens nothing: closing a descriptor of a file would drop all locks
// that this process has on it.
func allowed(path string, mode uint32) bool {
	err := syscall.Access(path, mode)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
