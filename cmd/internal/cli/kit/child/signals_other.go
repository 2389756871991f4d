//go:build !unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// The console sends its signals to every process, and none can be forwarded.
var (
	toPassOn []os.Signal
	toDrop   = []os.Signal{os.Interrupt, syscall.SIGTERM}
)

func sentByTerminal(os.Signal) bool { return true }

// OwnGroup does nothing, since only Unix terminals signal a group.
func OwnGroup(*exec.Cmd) {}
