//go:build !unix

package main

import "time"

// cpuTime returns 0: CPU time is not available here. Its columns are 0, and
// their ratios not a number.
func cpuTime() time.Duration { return 0 }
