//go:build !(linux || darwin || freebsd)

package sqlite

// freeSpace returns false: the free space is unknown on this system.
func freeSpace(string) (bytes int64, known bool) { return 0, false }
