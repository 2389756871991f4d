//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command ignore the signals that a terminal sends to this one.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
