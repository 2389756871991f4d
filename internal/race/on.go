//go:build race

// Package race reports whether the race detector runs.
package race

// Enabled reports whether the race detector watches this program.
const Enabled = true
