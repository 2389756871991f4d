package program_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/program"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// asProgram makes the test binary a program with a scenario of its own.
const asProgram = "ZAEL_TEST_LOAD_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Exit(loadtest.Main(program.Run, checkout(name)))
	}
	os.Exit(m.Run())
}

func checkout(name string) loadtest.Scenario {
	pay := func(context.Context, *loadtest.User) error { return nil }
	return loadtest.Scenario{
		Name: name, Classes: []loadtest.Class{{Name: "Shopper", Tasks: []loadtest.Task{{Run: pay}}}},
	}
}

func runProgram(t *testing.T, name string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // the test itself
	cmd.Env = append(os.Environ(), asProgram+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestProgramHasTheCommandsOfTheGroup(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"loadtest", "version"}} {
		if out, code := runProgram(t, "checkout", args...); code != 0 || !strings.Contains(out, "go1.") {
			t.Errorf("%v: exit code %d, output %q", args, code, out)
		}
	}
	if out, code := runProgram(t, "checkout", "acquire"); code != 2 || !strings.Contains(out, "program.test: ") {
		t.Errorf("a command of another group: exit code %d, output %q; want 2 and the program's name", code, out)
	}
}

func TestProgramChecksItsScenarios(t *testing.T) {
	out, code := runProgram(t, "a scenario", "version")
	if code != 2 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `invalid scenario "a scenario"`) {
		t.Errorf("exit code %d, output %q; want 2 and one sentence", code, out)
	}
}
