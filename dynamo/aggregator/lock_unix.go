//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package aggregator

import (
	"os"
	"syscall"
)

// lockFile creates a file if necessary, and waits for an exclusive lock on it. The
// lock ends with the process.
func lockFile(path string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file.Close, nil
}
