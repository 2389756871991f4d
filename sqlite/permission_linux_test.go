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

const owner, stranger = 1000, 65534 // users

// as is what a process of another user says.
func as(t *testing.T, uid uint32, role, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // the program may be in a folder that is closed to others
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s as user %d: %v: %s", role, uid, err, out)
	}
	return string(out)
}

// publicFolder is one that other users can reach.
func publicFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be someone else")
	}
	folder, err := os.MkdirTemp("", "zael") //nolint:usetesting // its folder is closed to others
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

func isWelcome(said string) bool { return said == "welcome\n" }

// SQLite opens a file that this user may only read without a word, and leaves a
// log beside it that its owner may not write.
func TestFileOfAnotherUserIsRefusedAndLeftAlone(t *testing.T) {
	folder := publicFolder(t, 0o777)
	path := filepath.Join(folder, "limits.db")
	if said := as(t, owner, "visit", path); !isWelcome(said) {
		t.Fatal(said)
	}
	for _, version := range []string{"4", "99"} {
		script(t.Context(), t, path, "PRAGMA user_version = "+version)
		if said := as(t, stranger, "visit", path); !isRefused(said) || !strings.Contains(said, "open it only to read") {
			t.Errorf("version %s: a stranger got %s", version, said)
		}
		if left := names(t, folder); !slices.Equal(left, []string{"limits.db"}) {
			t.Errorf("version %s: the folder has %q", version, left)
		}
	}
	if err := openError(t, path, nil); !isType[*limiter.VersionError](err) {
		t.Error(err)
	}
	script(t.Context(), t, path, "PRAGMA user_version = 4")
	if said := as(t, owner, "visit", path); !isWelcome(said) {
		t.Errorf("the owner got %s", said)
	}
}

// One who may only read does, in folders that are open to all and in those that
// are closed, and does not get in the owner's way.
func TestReaderOfAnotherUser(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o755, 0o555} {
		t.Run(mode.String(), func(t *testing.T) {
			folder := publicFolder(t, mode)
			path := written(t, folder)
			if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // that is the point
				t.Fatal(err)
			}
			if said := as(t, stranger, "read", path); !isWelcome(said) {
				t.Errorf("a stranger got %s", said)
			}
			if left := names(t, folder); len(left) != 1 {
				t.Errorf("the folder has %q", left)
			}
			open(t, path, nil)
		})
	}
}

// The log of a process that died is read by strangers, and stays its owner's:
// also where the index of the log is missing, which a reader would make.
func TestReaderOfAnotherUserLeavesTheLogAlone(t *testing.T) {
	for _, missing := range []string{"", "-shm"} {
		t.Run("without "+missing, func(t *testing.T) {
			path := filepath.Join(publicFolder(t, 0o777), "limits.db")
			as(t, owner, "die", path)
			if _, err := os.Stat(path + "-wal"); err != nil {
				t.Fatal(err)
			}
			if missing != "" {
				if err := os.Remove(path + missing); err != nil {
					t.Fatal(err)
				}
			}
			if said := as(t, stranger, "read", path); missing == "" && !isWelcome(said) {
				t.Errorf("a stranger got %s", said)
			}
			if said := as(t, owner, "visit", path); !isWelcome(said) {
				t.Errorf("the owner got %s", said)
			}
		})
	}
}

// What this user may not do is fs.ErrPermission, and the error names what to
// change.
func TestMissingRightsAreNamed(t *testing.T) {
	made := func(t *testing.T, path string, mode os.FileMode) {
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
		"a folder, to make a file": {0o755, func(*testing.T, string) {}, "visit", "make folder "},
		"a folder to look into":    {0o700, func(*testing.T, string) {}, "visit", "permission denied"},
		"a folder, beside a file": {0o755, func(t *testing.T, path string) {
			t.Helper()
			made(t, path, 0o666)
		}, "visit", "make folder "},
		"a file, to write": {0o777, func(t *testing.T, path string) {
			t.Helper()
			made(t, path, 0o644)
		}, "visit", "make it writable"},
		"a file, to write what it may not read": {0o777, func(t *testing.T, path string) {
			t.Helper()
			made(t, path, 0o622)
		}, "visit", "make it readable"},
		"a file, to read": {0o777, func(t *testing.T, path string) {
			t.Helper()
			made(t, path, 0o600)
		}, "read", "make it readable"},
		"a log that someone left": {0o777, func(t *testing.T, path string) {
			t.Helper()
			made(t, path, 0o666)
			if err := os.WriteFile(path+"-wal", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "visit", "limits.db-wal"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := publicFolder(t, c.folder)
			path := filepath.Join(folder, "limits.db")
			c.prepare(t, path)
			before := names(t, folder)
			if said := as(t, stranger, c.role, path); !isRefused(said) || !strings.Contains(said, c.says) || strings.Count(said, "\n") != 1 {
				t.Errorf("got %s, want a sentence with %q", said, c.says)
			}
			if left := names(t, folder); !slices.Equal(left, before) {
				t.Errorf("the folder has %q", left)
			}
		})
	}
}

// A reader in the process of a writer must not drop the locks that this one has
// on the file, as closing any descriptor of it would.
func TestReaderInTheSameProcessKeepsTheLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	open(t, path, nil)
	before := locks(t, path)
	if before == 0 {
		t.Skip("the system shows no locks")
	}
	if err := open(t, path, &sqlite.Options{ReadOnly: true}).Close(); err != nil {
		t.Fatal(err)
	}
	if after := locks(t, path); after != before {
		t.Errorf("%d locks, before it were %d", after, before)
	}
}

// locks counts those on a file.
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

// Opening a pipe would wait for its other end.
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
