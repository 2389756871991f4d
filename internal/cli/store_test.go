package cli

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
		s, err := parseStore(url)
		if err != nil || s.name != url {
			t.Fatalf("%s: %q, %v", url, s.name, err)
		}
		repo, err := s.open(context.Background(), openOptions{access: accessCreate})
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
		if _, err := parseStore(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}

func TestTemporaryStoreLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder) // Windows
	repo, err := temporaryStore().open(context.Background(), openOptions{access: accessCreate})
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
	if repo, err := temporaryStore().open(context.Background(), openOptions{access: accessCreate}); repo != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v", repo, err)
	}
	s, err := parseStore("sqlite:" + filepath.Join(t.TempDir(), "missing", "limits.db"))
	if err != nil {
		t.Fatal(err)
	}
	if repo, err := s.open(context.Background(), openOptions{access: accessCreate}); repo != nil || err == nil {
		t.Errorf("got %v, %v", repo, err)
	}
}

func files(t *testing.T, folder string) int {
	t.Helper()
	n := -1 // the folder itself
	if err := filepath.WalkDir(folder, func(string, fs.DirEntry, error) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
