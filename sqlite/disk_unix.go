//go:build linux || darwin || freebsd

package sqlite

import "syscall"

// freeSpace returns the number of free bytes on the disk of a folder.
func freeSpace(folder string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // other systems have other types
}
