package kit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestParseStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.db")
	for _, url := range []string{"memory:", "sqlite:" + file} {
		s, err := ParseStore(url)
		if err != nil || s.Name != url {
			t.Fatalf("%s: %q, %v", url, s.Name, err)
		}
		repo, err := s.Open(context.Background(), OpenOptions{Access: Create})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := errors.Join(repo.Ping(context.Background()), repo.Close()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	for _, url := range []string{"", "memory", "memory:x", "sqlite", "sqlite:", "redis:x", ":", "SQLITE:x"} {
		if _, err := ParseStore(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}

func TestTemporaryStoreLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder) // Windows
	repo, err := TemporaryStore().Open(context.Background(), OpenOptions{Access: Create})
	if err != nil {
		t.Fatal(err)
	}
	if n := files(t, folder); n == 0 {
		t.Error("there is no file")
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	if n := files(t, folder); n > 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestStoreThatCannotBeOpened(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	if repo, err := TemporaryStore().Open(
		context.Background(), OpenOptions{Access: Create},
	); repo != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v", repo, err)
	}
	s, err := ParseStore("sqlite:" + filepath.Join(t.TempDir(), "missing", "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	if repo, err := s.Open(context.Background(), OpenOptions{Access: Create}); repo != nil || err == nil {
		t.Errorf("got %v, %v", repo, err)
	}
}

// A file without tables is one that another process is creating. A command that may
// create the store waits for it or does so; any other refuses.
func TestFileThatIsBeingCreated(t *testing.T) {
	for _, test := range []struct {
		options OpenOptions
		works   bool
	}{
		{OpenOptions{Access: Create}, true},
		{OpenOptions{Access: Create, Namespace: DefaultNamespace}, true},
		{OpenOptions{Access: Create, Namespace: "other"}, false},
		{OpenOptions{Access: Change}, false},
		{OpenOptions{Access: Read}, false},
	} {
		path := filepath.Join(t.TempDir(), "limits.db")
		if err := os.WriteFile(path, emptyDatabase(), 0o600); err != nil {
			t.Fatal(err)
		}
		repo, err := openSQLite(t.Context(), path, test.options)
		if works := err == nil; works != test.works {
			t.Errorf("%+v: %v", test.options, err)
		}
		if repo != nil {
			if err := repo.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// emptyDatabase returns a file of SQLite without tables: one page with its header
// and an empty leaf.
func emptyDatabase() []byte {
	page := make([]byte, 4096)
	copy(page, "SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20")
	page[27], page[31] = 1, 1 // changes, pages
	page[47], page[59] = 4, 1 // format of the schema, UTF-8
	page[95] = 1
	page[100], page[105] = 0x0d, 0x10 // leaf of a table, cells from byte 4096 on
	return page
}

func files(t *testing.T, folder string) int {
	t.Helper()
	n := -1 // the folder itself
	if err := filepath.WalkDir(folder, func(string, fs.DirEntry, error) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
