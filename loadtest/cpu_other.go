//go:build !unix

package loadtest

import "time"

// cpuTime returns 0, since the CPU time is not available here.
func cpuTime() time.Duration { return 0 }
