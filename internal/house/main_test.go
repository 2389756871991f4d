package house

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain runs the tests in the root of the repository, where go.work is.
func TestMain(m *testing.M) {
	if err := enterRoot(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enterRoot changes to the nearest folder that has a go.work.
func enterRoot() error {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("no folder above this one has a go.work")
		}
		dir = filepath.Dir(dir)
	}
	return err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
