//go:build !(linux || darwin || freebsd)

package sqlite

// freeSpace is not known here.
func freeSpace(string) (bytes int64, known bool) { return 0, false }
