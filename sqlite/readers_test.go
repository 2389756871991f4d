package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// fileNames returns the names of the files in a folder.
func fileNames(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// storeWithEntity creates a store with one entity, closes it and returns its path.
func storeWithEntity(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "limits.db")
	repo := open(t, path, nil)
	if _, err := limiterOn(t, repo).CreateEntity(t.Context(), limiter.Entity{ID: "key-1"}); err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// readOnce opens the store read-only, reads the entity and closes it.
func readOnce(t *testing.T, path string) {
	t.Helper()
	repo := open(t, path, &sqlite.Options{ReadOnly: true})
	if _, err := limiterOn(t, repo).Entity(t.Context(), "key-1"); err != nil {
		t.Error(err)
	}
	if err := repo.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadersLeaveNothingBehind(t *testing.T) {
	folder := t.TempDir()
	path := storeWithEntity(t, folder)
	readOnce(t, path)
	if left := fileNames(t, folder); !slices.Equal(left, []string{"limits.db"}) {
		t.Errorf("the folder has %q", left)
	}
	if err := os.Chmod(path, 0o444); err != nil { //nolint:gosec // readable on purpose
		t.Fatal(err)
	}
	readOnce(t, path)
	if left := fileNames(t, folder); !slices.Equal(left, []string{"limits.db"}) {
		t.Errorf("with a read-only file the folder has %q", left)
	}
}

// TestReadersJoinAWriter checks that a reader sees the commits of a writer that are
// only in the log.
func TestReadersJoinAWriter(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "limits.db")
	writer := open(t, path, nil)
	if _, err := limiterOn(t, writer).CreateEntity(t.Context(), limiter.Entity{ID: "key-1"}); err != nil {
		t.Fatal(err)
	}
	readOnce(t, path)
	link := filepath.Join(folder, "link.db")
	if err := os.Symlink(path, link); err == nil {
		if err := os.Chmod(path, 0o444); err != nil { // forces it to find the log
			t.Fatal(err)
		}
		readOnce(t, link)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reader := limiterOn(t, open(t, path, &sqlite.Options{ReadOnly: true}))
	if _, err := limiterOn(t, writer).CreateEntity(t.Context(), limiter.Entity{ID: "key-2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Entity(t.Context(), "key-2"); err != nil {
		t.Error(err)
	}
}
