//go:build unix

package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// checkModes checks the permissions of the file and its log, and that nothing else
// is in the folder.
func checkModes(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder has %v, want the file and its log: %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the permissions %v, want %v: %v", e.Name(), info.Mode(), want, err)
		}
	}
}

// TestModeOfANewFile checks that other users of a shared folder cannot read a new
// file nor its log, unless the options say so.
func TestModeOfANewFile(t *testing.T) {
	for _, test := range []struct{ asked, want fs.FileMode }{{0, 0o600}, {0o660, 0o660}, {0o644, 0o644}} {
		path := filepath.Join(t.TempDir(), "limits.db")
		repo := open(t, path, &sqlite.Options{Mode: test.asked})
		lim, err := limiter.New(repo, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
			t.Fatal(err)
		}
		checkModes(t, path, test.want)
	}
}

// TestModeOfAnExistingFile checks that a file keeps its permissions, and that its
// log gets them.
func TestModeOfAnExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil { //nolint:gosec // the permissions are the subject
		t.Fatal(err)
	}
	repo := open(t, path, &sqlite.Options{Mode: 0o600})
	if err := repo.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkModes(t, path, 0o640)
}

// TestModeThatLocksTheOwnerOut checks that such permissions are bad input, and that
// Open creates nothing.
func TestModeThatLocksTheOwnerOut(t *testing.T) {
	for _, mode := range []fs.FileMode{0o400, 0o066, fs.ModeDir | 0o700} {
		path := filepath.Join(t.TempDir(), "limits.db")
		_, err := sqlite.Open(t.Context(), path, &sqlite.Options{Mode: mode})
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			t.Errorf("%v: error %v, want *limiter.InvalidError", mode, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%v: there is a file", mode)
		}
	}
}
