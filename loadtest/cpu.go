package loadtest

import "time"

// CPUTime returns the user and system time of this process, 0 if the system does
// not tell.
func CPUTime() time.Duration { return cpuTime() }
