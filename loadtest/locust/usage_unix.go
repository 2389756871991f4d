//go:build unix

package locust

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time of this process, 0 if the system does not say.
func processCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
