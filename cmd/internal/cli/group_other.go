//go:build !unix

package cli

import "os/exec"

// ownGroup does nothing, since only Unix terminals signal a group.
func ownGroup(*exec.Cmd) {}
