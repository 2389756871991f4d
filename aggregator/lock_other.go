//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package aggregator

import "os"

// lockFile only makes the file: one process at a time has to write here.
func lockFile(path string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return file.Close, nil
}
