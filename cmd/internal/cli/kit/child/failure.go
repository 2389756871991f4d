package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Exit codes, as shells use them.
const (
	codeUnstarted = 126
	codeNotFound  = 127
	codeSignalled = 128 // plus the number of the signal
	codeUnknown   = 255 // the system does not report how the child ended
)

// lookUpFailure returns the exit code and the error for a program that was not
// found.
func lookUpFailure(name string, err error) (code int, _ error) {
	switch {
	case errors.Is(err, exec.ErrNotFound) && isInPath(name):
		return codeUnstarted, fmt.Errorf("cannot run %q: found in PATH, but not executable", name)
	case errors.Is(err, exec.ErrNotFound):
		return codeNotFound, fmt.Errorf("cannot run %q: not found in PATH", name)
	case errors.Is(err, fs.ErrNotExist):
		return codeNotFound, fmt.Errorf("cannot run %q: there is no such file", name)
	}
	return codeUnstarted, fmt.Errorf("cannot run %q: %w", name, reason(err))
}

// startFailure returns the exit code and the error for a program that exists but
// did not start.
func startFailure(name string, err error) (code int, _ error) {
	switch {
	// lookUp has found the file, so what is missing is the interpreter of its
	// #! line.
	case errors.Is(err, fs.ErrNotExist):
		return codeUnstarted, fmt.Errorf("cannot run %q: its interpreter is not found", name)
	case errors.Is(err, syscall.ENOEXEC):
		return codeUnstarted, fmt.Errorf("cannot run %q: neither a program for this system nor a script with a #! line",
			name)
	}
	return codeUnstarted, fmt.Errorf("cannot run %q: %w", name, reason(err))
}

// reason returns the error number of the system, without the failed call.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// isInPath reports whether PATH has a file of that name, executable or not.
func isInPath(name string) bool {
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		info, err := os.Stat(filepath.Join(folder, name))
		if err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}
