//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

var toPassOn = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT, unix.SIGWINCH,
}

// toDrop has SIGPIPE because whoever reads what this process writes may leave
// before the child does.
var toDrop = []os.Signal{unix.SIGPIPE}

// sentByTerminal tells whether the child has got that signal from the terminal
// itself.
func sentByTerminal(sig os.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH:
		return inForeground()
	}
	return false
}

// inForeground tells whether this process belongs to the foreground group of
// its terminal. Without a terminal there is none.
func inForeground() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
