//go:build unix

package local

import (
	"os"
	"os/exec"
	"syscall"
)

// detached returns the attributes of a process in a session of its own.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// grouped makes a program end with all its children when its context ends.
func grouped(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return kill(cmd.Process.Pid) }
}

// terminate asks the process group of a daemon to end.
func terminate(pid int) error { return syscall.Kill(-pid, syscall.SIGTERM) }

// kill ends the process group of a daemon.
func kill(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// tryLock locks a file without waiting. The system unlocks it when the file is
// closed or the process dies.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
