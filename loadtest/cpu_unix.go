//go:build unix

package loadtest

import (
	"syscall"
	"time"
)

// CPUTime returns the user and system time of this process, 0 if the system does
// not tell.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
