package local

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached returns the attributes of a process without a console.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// grouped does nothing, since the program ends with its context anyway.
func grouped(*exec.Cmd) {}

// terminate ends a process. Windows has no signal that asks for it.
func terminate(pid int) error { return kill(pid) }

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// startTime returns the time at which a process was created.
func startTime(pid int) (_ string, err error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(process)) }()

	var code uint32
	if err := windows.GetExitCodeProcess(process, &code); err != nil {
		return "", err
	}

	// Windows reports this code, STILL_ACTIVE, for a process that has not
	// ended.
	const stillActive = 259

	if code != stillActive {
		return "", errors.New("the process has ended")
	}

	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return "", err
	}

	return strconv.FormatInt(created.Nanoseconds(), 10), nil
}

// tryLock locks a file without waiting. The system unlocks it when the file is
// closed or the process dies.
func tryLock(file *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
