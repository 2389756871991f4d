package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// SQLite opens a file that this user may only read without a word, and then
// fails each write: an outage that Allow would wave through.
func TestFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be someone else")
	}
	folder, err := os.MkdirTemp("", "zael") //nolint:usetesting // its folder is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o777); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	path := filepath.Join(folder, "limits.db")
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	as(65534, func() {
		repo, err := sqlite.Open(t.Context(), path, nil)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("opened with %v, want fs.ErrPermission", err)
		}
		if err == nil {
			_ = repo.Close()
		}
	})
	open(t, path, nil)
}

// as runs f with the file access of another user, on one thread.
func as(uid uintptr, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0)
	defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) }()
	f()
}

// Whoever may only read does, in folders that are open to all and in those that
// are closed, and does not get in the owner's way.
func TestReaderOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be someone else")
	}
	for _, mode := range []os.FileMode{0o777, 0o755, 0o555} {
		t.Run(mode.String(), func(t *testing.T) {
			folder, err := os.MkdirTemp("", "zael") //nolint:usetesting // its folder is closed to others
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(folder) })
			path := written(t, folder)
			if err := errors.Join(os.Chmod(folder, mode), os.Chmod(path, 0o644)); err != nil {
				t.Fatal(err)
			}
			as(65534, func() { readOnce(t, path) })
			if left := names(t, folder); len(left) != 1 {
				t.Errorf("the folder has %q", left)
			}
			open(t, path, nil)
		})
	}
}

// Opening a pipe would wait for whoever writes to it.
func TestPipeIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		if err := openError(t, path, &sqlite.Options{ReadOnly: readOnly}); !isType[*limiter.InvalidError](err) {
			t.Errorf("read only %t: %v", readOnly, err)
		}
	}
}
