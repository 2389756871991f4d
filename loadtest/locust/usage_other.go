//go:build !unix

package locust

import "time"

// processCPU returns 0, since only Unix systems are measured.
func processCPU() time.Duration { return 0 }
