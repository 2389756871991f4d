package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

const owner, stranger = 1000, 65534 // user IDs

// runAs performs a role as another user and returns the output.
func runAs(t *testing.T, uid uint32, role, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // os.Args[0] may be in a private folder
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s as user %d: %v: %s", role, uid, err, out)
	}
	return string(out)
}

// publicFolder returns a folder that other users can reach.
func publicFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run processes as other users")
	}
	folder, err := os.MkdirTemp("", "zael") //nolint:usetesting // t.TempDir is private
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, mode); err != nil {
		t.Fatal(err)
	}
	return folder
}

func isRefused(said string) bool { return strings.HasPrefix(said, "no permission: ") }

func isOpened(said string) bool { return said == "opened\n" }

// TestFileOfAnotherUserIsRefused checks that Open fails for a file that this user
// may only read. SQLite would open it, and leave a log that its owner may not
// write.
func TestFileOfAnotherUserIsRefused(t *testing.T) {
	folder := publicFolder(t, 0o777)
	path := filepath.Join(folder, "limits.db")
	if said := runAs(t, owner, "visit", path); !isOpened(said) {
		t.Fatal(said)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // readable on purpose
		t.Fatal(err)
	}
	for _, version := range []string{"6", "99"} {
		script(t.Context(), t, path, "PRAGMA user_version = "+version)
		if said := runAs(t, stranger, "visit", path); !isRefused(said) || !strings.Contains(said, "open it read-only") {
			t.Errorf("version %s: a stranger got %s", version, said)
		}
		if left := fileNames(t, folder); !slices.Equal(left, []string{"limits.db"}) {
			t.Errorf("version %s: the folder has %q", version, left)
		}
	}
	if err := openError(t, path, nil); !isType[*limiter.VersionError](err) {
		t.Error(err)
	}
	script(t.Context(), t, path, "PRAGMA user_version = 7")
	if said := runAs(t, owner, "visit", path); !isOpened(said) {
		t.Errorf("the owner got %s", said)
	}
}

// TestReaderOfAnotherUser checks that a user without write permission can read,
// in any folder, and leaves nothing that blocks the owner.
func TestReaderOfAnotherUser(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o755, 0o555} {
		t.Run(mode.String(), func(t *testing.T) {
			folder := publicFolder(t, mode)
			path := storeWithEntity(t, folder)
			if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // readable on purpose
				t.Fatal(err)
			}
			if said := runAs(t, stranger, "read", path); !isOpened(said) {
				t.Errorf("a stranger got %s", said)
			}
			if left := fileNames(t, folder); len(left) != 1 {
				t.Errorf("the folder has %q", left)
			}
			open(t, path, nil)
		})
	}
}

// TestReaderOfAnotherUserLeavesTheLogAlone checks that other users can read the log
// of a dead process, and that the owner can still write it. This includes a log
// whose index is missing, which a reader would create.
func TestReaderOfAnotherUserLeavesTheLogAlone(t *testing.T) {
	for _, missing := range []string{"", "-shm"} {
		t.Run("without "+missing, func(t *testing.T) {
			path := filepath.Join(publicFolder(t, 0o777), "limits.db")
			runAs(t, owner, "die", path)
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Chmod(path+end, 0o644); err != nil { //nolint:gosec // readable on purpose
					t.Fatal(err)
				}
			}
			if missing != "" {
				if err := os.Remove(path + missing); err != nil {
					t.Fatal(err)
				}
			}
			if said := runAs(t, stranger, "read", path); missing == "" && !isOpened(said) {
				t.Errorf("a stranger got %s", said)
			}
			if said := runAs(t, owner, "visit", path); !isOpened(said) {
				t.Errorf("the owner got %s", said)
			}
		})
	}
}

// TestMissingPermissionIsNamed checks that the error is fs.ErrPermission and names
// the file or folder to change.
func TestMissingPermissionIsNamed(t *testing.T) {
	create := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		if err := open(t, path, nil).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		folder  os.FileMode
		prepare func(t *testing.T, path string)
		role    string
		says    string
	}{
		"a folder, to create a file": {0o755, func(*testing.T, string) {}, "visit", "make folder "},
		"a folder, to search":        {0o700, func(*testing.T, string) {}, "visit", "permission denied"},
		"a folder, beside a file": {0o755, func(t *testing.T, path string) {
			t.Helper()
			create(t, path, 0o666)
		}, "visit", "make folder "},
		"a file, to write": {0o777, func(t *testing.T, path string) {
			t.Helper()
			create(t, path, 0o644)
		}, "visit", "make it writable"},
		"a file, to write without reading": {0o777, func(t *testing.T, path string) {
			t.Helper()
			create(t, path, 0o622)
		}, "visit", "make it readable"},
		"a file, to read": {0o777, func(t *testing.T, path string) {
			t.Helper()
			create(t, path, 0o600)
		}, "read", "make it readable"},
		"a log of another user": {0o777, func(t *testing.T, path string) {
			t.Helper()
			create(t, path, 0o666)
			if err := os.WriteFile(path+"-wal", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "visit", "limits.db-wal"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := publicFolder(t, c.folder)
			path := filepath.Join(folder, "limits.db")
			c.prepare(t, path)
			before := fileNames(t, folder)
			if said := runAs(t, stranger, c.role, path); !isRefused(said) || !strings.Contains(said, c.says) ||
				strings.Count(said, "\n") != 1 {
				t.Errorf("got %s, want one line with %q", said, c.says)
			}
			if left := fileNames(t, folder); !slices.Equal(left, before) {
				t.Errorf("the folder has %q", left)
			}
		})
	}
}

// TestReaderInTheSameProcessKeepsTheLocks checks that closing a reader does not
// drop the locks of a writer in the same process, as closing a descriptor would.
func TestReaderInTheSameProcessKeepsTheLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	open(t, path, nil)
	before := locks(t, path)
	if before == 0 {
		t.Skip("/proc/locks lists no locks")
	}
	if err := open(t, path, &sqlite.Options{ReadOnly: true}).Close(); err != nil {
		t.Fatal(err)
	}
	if after := locks(t, path); after != before {
		t.Errorf("%d locks, want %d as before", after, before)
	}
}

// locks returns the number of locks on a file.
func locks(t *testing.T, path string) int {
	t.Helper()
	var info syscall.Stat_t
	if err := syscall.Stat(path, &info); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(all), fmt.Sprintf(":%d ", info.Ino))
}

// TestPipeIsRefused checks that Open does not open a pipe, which would block.
func TestPipeIsRefused(t *testing.T) {
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
