package engine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFailingScripts runs scripts that fail in each way that the script of a
// server can fail.
func TestFailingScripts(t *testing.T) {
	for _, test := range []struct {
		name, script string
		missing      bool
		says         string
	}{
		{"a program is missing", "echo 'install Java' >&2; exit 3", true, "install Java"},
		{"it cannot start", "exit 127", true, ErrMissing.Error()},
		{"it fails", "echo 'Java ended' >&2; exit 1", false, "Java ended"},
		{"it prints nothing", "exit 0", false, "no URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := launch("sh", "-c", test.script)
			if s != nil || err == nil || errors.Is(err, ErrMissing) != test.missing ||
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
	if _, err := launch(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrMissing) {
		t.Errorf("without a script: %v", err)
	}
}

func TestServerStopsWhenItsInputIsClosed(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "stopped")
	s, err := launch("sh", "-c", `echo http://nowhere; cat >/dev/null; echo >"$0"`, mark)
	if err != nil || s.URL() != "http://nowhere" {
		t.Fatalf("%v, %v", s, err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has stopped already: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it has not ended: %v", err)
	}
}

func TestRunningServerHasNoGoroutine(t *testing.T) {
	s, err := launch("sh", "-c", "echo http://nowhere; cat >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		_, creator, _ := strings.Cut(stack, "\ncreated by ")
		if strings.HasPrefix(creator, "os/exec.") || strings.Contains(creator, "/internal/engine.launch") {
			t.Errorf("it left\n%s", stack)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStopLeavesOtherServersRunning(t *testing.T) {
	t.Setenv("ZAEL_TEST_SERVER", "http://elsewhere")
	t.Chdir(t.TempDir()) // no script is needed
	s, err := Start("any", "ZAEL_TEST_SERVER")
	if err != nil || s.URL() != "http://elsewhere" {
		t.Fatalf("%v, %v", s, err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
