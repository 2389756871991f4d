package dynamo_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTableNamesAreValidAndUnique(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,54}$`)
	t.Run("ünusual/name_"+strings.Repeat("x", 99), func(t *testing.T) {
		a, b := tableName(t), tableName(t)
		if a == b || !valid.MatchString(a) || !valid.MatchString(b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

func TestLeftGoroutinesAreNoticed(t *testing.T) {
	before := goroutines()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { <-end; close(ended) }()
	if left := newGoroutines(before); len(left) != 1 || !strings.Contains(left[0], t.Name()) {
		t.Errorf("it noticed %q", left)
	}
	close(end)
	<-ended
	until(t.Context(), func() bool { return len(newGoroutines(before)) == 0 })
}

// The scripts are made here, and end in the ways that the engine's may end.
func TestEngineScriptsThatFail(t *testing.T) {
	for _, test := range []struct {
		name, script string
		missing      bool
		says         string
	}{
		{"a program is missing", "echo 'install Java' >&2; exit 3", true, "install Java"},
		{"it fails", "echo 'Java ended' >&2; exit 1", false, "Java ended"},
		{"it says nothing", "exit 0", false, "no URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := launch("sh", "-c", test.script)
			if e != nil || err == nil || errors.Is(err, errNoEngine) != test.missing || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, %v", e, err)
			}
		})
	}
	if _, err := launch(filepath.Join(t.TempDir(), "none")); !errors.Is(err, errNoEngine) {
		t.Errorf("without a script: %v", err)
	}
}

func TestEngineStopsWhenItsInputIsClosed(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "stopped")
	e, err := launch("sh", "-c", `echo http://nowhere; cat >/dev/null; echo >"$0"`, mark)
	if err != nil || e.url != "http://nowhere" {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has stopped already: %v", err)
	}
	if err := e.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it has not come to its end: %v", err)
	}
}
