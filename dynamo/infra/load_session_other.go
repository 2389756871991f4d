//go:build !unix

package infra

import "os/exec"

// detach does nothing: there are no process groups.
func detach(*exec.Cmd) {}
