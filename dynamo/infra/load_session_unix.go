//go:build unix

package infra

import (
	"os/exec"
	"syscall"
)

// detach keeps an interrupt from the terminal away from a command, so that this
// process can use it until it has cleaned up.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
