package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLostFileIsAnOutage checks that reads and writes fail within a second after
// the file was removed, moved or replaced.
func TestLostFileIsAnOutage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system does not remove open files")
	}
	for name, c := range map[string]struct {
		lose func(path, other string) error
		says string
	}{
		"removed":  {func(path, _ string) error { return os.Remove(path) }, "limits.db was removed"},
		"moved":    {func(path, _ string) error { return os.Rename(path, path+".old") }, "limits.db was removed"},
		"replaced": {func(path, other string) error { return os.Rename(other, path) }, "limits.db was replaced"},
		"its log":  {func(path, _ string) error { return os.Remove(path + "-wal") }, "limits.db-wal was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path, other := filepath.Join(t.TempDir(), "limits.db"), filepath.Join(t.TempDir(), "other.db")
				lim := tenDaily(t, openFile(t, path, nil))
				if err := openFile(t, other, nil).Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(checkEvery)
				if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
					t.Fatal(err)
				}
				if err := c.lose(path, other); err != nil {
					t.Fatal(err)
				}
				time.Sleep(checkEvery)
				for range 3 {
					_, err := lim.Acquire(t.Context(), oneOfAlice)
					if !isOutage(err) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("acquire: %v", err)
					}
					if _, err := lim.Available(t.Context(), "alice", "gpt-4"); !isOutage(err) ||
						!strings.Contains(err.Error(), c.says) {
						t.Errorf("read: %v", err)
					}
				}
			})
		})
	}
}

func TestRestoredFileWorksAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system does not remove open files")
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		r := openFile(t, path, &Options{})
		reader := openFile(t, path, &Options{ReadOnly: true})
		lim := tenDaily(t, r)
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkEvery)
		if _, err := lim.Acquire(t.Context(), oneOfAlice); !isOutage(err) {
			t.Errorf("while it is missing: %v", err)
		}
		if err := reader.Ping(t.Context()); err == nil {
			t.Error("the reader returned no error")
		}
		if err := os.Rename(path+".moved", path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkEvery)
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Errorf("after it was restored: %v", err)
		}
		if err := reader.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLinkedFileIsPresent opens the file by a symbolic link.
func TestLinkedFileIsPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		path, link := filepath.Join(folder, "limits.db"), filepath.Join(folder, "link.db")
		if err := openFile(t, path, nil).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, link); err != nil {
			t.Skip(err)
		}
		lim := tenDaily(t, openFile(t, link, nil))
		time.Sleep(checkEvery)
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Error(err)
		}
		if err := os.Remove(path + "-wal"); err != nil {
			t.Skip(err)
		}
		time.Sleep(checkEvery)
		if _, err := lim.Acquire(t.Context(), oneOfAlice); !isOutage(err) {
			t.Errorf("without its log: %v", err)
		}
	})
}
