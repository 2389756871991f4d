//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

var toPassOn = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCONT, unix.SIGWINCH,
}

// toDrop holds SIGPIPE, since the reader of this process may end before the child.
var toDrop = []os.Signal{unix.SIGPIPE}

// sentByTerminal reports whether the terminal sent the signal to the child, too.
func sentByTerminal(sig os.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH:
		return inForeground()
	}
	return false
}

// inForeground reports whether this process belongs to the foreground group of
// its terminal.
func inForeground() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()

	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// OwnGroup makes a command ignore the signals that a terminal sends to this program.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
