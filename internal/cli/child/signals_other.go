//go:build !unix

package child

import (
	"os"
	"syscall"
)

// The console tells every process by itself, and nothing can be passed on.
var (
	toPassOn []os.Signal
	toDrop   = []os.Signal{os.Interrupt, syscall.SIGTERM}
)

func sentByTerminal(os.Signal) bool { return true }
