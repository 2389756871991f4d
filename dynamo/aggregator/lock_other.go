//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package aggregator

import "os"

// lockFile creates the file without a lock: only one process may write at a time.
func lockFile(path string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return file.Close, nil
}
