package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestRefusedFileIsNotTouched checks that a refused file does not change, and that
// no descriptor stays open.
func TestRefusedFileIsNotTouched(t *testing.T) {
	folder := t.TempDir()
	other, newer := filepath.Join(folder, "other.db"), filepath.Join(folder, "newer.db")
	script(t.Context(), t, other, "CREATE TABLE orders (id INTEGER)")
	if err := open(t, newer, nil).Close(); err != nil {
		t.Fatal(err)
	}
	script(t.Context(), t, newer, "PRAGMA user_version = 99")
	for _, path := range []string{other, newer} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		open := openFiles(t)
		for range 5 {
			if err := openError(t, path, nil); !isType[*limiter.VersionError](err) {
				t.Error(err)
			}
		}
		after, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed: %v", path, err)
		}
		for _, left := range []string{path + "-wal", path + "-shm"} {
			if _, err := os.Stat(left); err == nil {
				t.Errorf("%s was left behind", left)
			}
		}
		if more := openFiles(t) - open; more > 0 {
			t.Errorf("%d files stay open after 5 attempts", more)
		}
	}
}

// openFiles returns the number of open descriptors of this process on Linux, and 0
// elsewhere.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestPathsOfFiles(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	for _, path := range []string{"relative.db", "/" + filepath.Join(folder, "double.db"), "./a b.db"} {
		open(t, path, nil)
	}
	if err := openError(t, ":memory:", nil); !isType[*limiter.InvalidError](err) {
		t.Error(err)
	}
}

// TestDamagedSystemLimitsDoNotCloseTheFile checks that damaged limits fail only
// calls that need them, and can be replaced.
func TestDamagedSystemLimitsDoNotCloseTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	repo := open(t, path, nil)
	if err := limiterOn(t, repo).SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	script(t.Context(), t, path, `UPDATE configs SET limits = '[{"name":"rpm"}]'`)
	lim := limiterOn(t, open(t, path, nil))
	req := limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)}
	if _, err := lim.Acquire(t.Context(), req); !isType[*limiter.CorruptError](err) {
		t.Errorf("acquire: %v", err)
	}
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Acquire(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestClosedReadOnlyFileIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	repo := open(t, path, &sqlite.Options{ReadOnly: true})
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	err := limiterOn(t, repo).SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10))
	if err == nil || !isClosed(err) {
		t.Error(err)
	}
}
