// Package golden compares the output of tests with reviewed files.
package golden

import (
	"flag"
	"os"
	"path/filepath"

	"github.com/google/go-cmp/cmp"
)

// Update is the flag -update, which rewrites the files.
var Update = flag.Bool("update", false, "rewrite the golden files")

// TB is the part of testing.TB that Check uses.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Check fails the test if the file at path does not contain got. With -update, it
// writes the file instead.
func Check(tb TB, path, got string) {
	tb.Helper()

	if *Update {
		// A new test may have no folder for its files yet.
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}

	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v; run the test with -update to create it", err)
	}

	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s (-want +got), -update rewrites it:\n%s", path, diff)
	}
}
