package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// names are the files of a folder.
func names(t *testing.T, folder string) []string {
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

// written is a store with an entity in a folder of its own, closed.
func written(t *testing.T, folder string) string {
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

// readOnce reads the entity as somebody who only looks.
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
	path := written(t, folder)
	readOnce(t, path)
	if left := names(t, folder); !slices.Equal(left, []string{"limits.db"}) {
		t.Errorf("the folder has %q", left)
	}
	if err := os.Chmod(path, 0o444); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	readOnce(t, path)
	if left := names(t, folder); !slices.Equal(left, []string{"limits.db"}) {
		t.Errorf("where it may not be written, the folder has %q", left)
	}
}

// A reader beside a writer sees what that one wrote, also what is in the log
// only.
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
		if err := os.Chmod(path, 0o444); err != nil { // so that it has to find the log
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
