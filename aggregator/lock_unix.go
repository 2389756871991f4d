//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package aggregator

import (
	"os"
	"syscall"
)

// lockFile waits until nobody else has locked a file, which is made if there is
// none. A process that dies unlocks what it had.
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
