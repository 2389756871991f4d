package dynamolocal

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The scripts are made here, and end in the ways that the engine's may end.
func TestScriptsThatFail(t *testing.T) {
	for _, test := range []struct {
		name, script string
		missing      bool
		says         string
	}{
		{"a program is missing", "echo 'install Java' >&2; exit 3", true, "install Java"},
		{"it cannot even start", "exit 127", true, ErrMissing.Error()},
		{"it fails", "echo 'Java ended' >&2; exit 1", false, "Java ended"},
		{"it says nothing", "exit 0", false, "no URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := launch("sh", "-c", test.script)
			if e != nil || err == nil || errors.Is(err, ErrMissing) != test.missing || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, %v", e, err)
			}
		})
	}
	if _, err := launch(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrMissing) {
		t.Errorf("without a script: %v", err)
	}
}

func TestEngineStopsWhenItsInputIsClosed(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "stopped")
	e, err := launch("sh", "-c", `echo http://nowhere; cat >/dev/null; echo >"$0"`, mark)
	if err != nil || e.URL() != "http://nowhere" {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has stopped already: %v", err)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it has not come to its end: %v", err)
	}
}

func TestRunningEngineHasNoGoroutine(t *testing.T) {
	e, err := launch("sh", "-c", "echo http://nowhere; cat >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		_, creator, _ := strings.Cut(stack, "\ncreated by ")
		if strings.HasPrefix(creator, "os/exec.") || strings.Contains(creator, "/internal/dynamolocal.launch") {
			t.Errorf("it left\n%s", stack)
		}
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}

func TestEngineThatRanBeforeRunsOn(t *testing.T) {
	t.Setenv(EndpointVariable, "http://elsewhere")
	t.Chdir(t.TempDir()) // no script is needed
	e, err := Start()
	if err != nil || e.URL() != "http://elsewhere" {
		t.Fatalf("%v, %v", e, err)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
}
