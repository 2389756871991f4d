//go:build !unix

package loadtest

import "time"

// CPUTime returns 0, since the CPU time is not available here.
func CPUTime() time.Duration { return 0 }
