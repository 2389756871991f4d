package cli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestMain makes the program a command of the scripts, and stops the engines they
// used.
func TestMain(m *testing.M) {
	clitest.Main(withReleased{m}, map[string]func(){"fake-engine": fakeEngine})
}

type withReleased struct{ *testing.M }

// Run runs the tests with a folder for the program of a release.
func (m withReleased) Run() int {
	folder, err := os.MkdirTemp("", "zae-limiter-released-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	releasedFolder = folder
	return m.M.Run()
}

const (
	scripts     = "testdata/script"      // run once
	dataScripts = "testdata/script/data" // run on every persistent store
)

// TestScripts runs scripts that need no store or choose their own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(scripts, "none", func(env *testscript.Env) error {
		env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "data"))
		return nil
	}))
}

// TestDataScriptsOnSQLite runs the data commands on a file.
func TestDataScriptsOnSQLite(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(dataScripts, "sqlite", func(env *testscript.Env) error {
		path := filepath.Join(env.WorkDir, "limits.db")
		clock, err := clitest.Slow(env.WorkDir)
		if err != nil {
			return err
		}
		env.Setenv("ZAEL_STORE", "sqlite:"+path)
		env.Setenv(clitest.SlowClock, clock)
		repo, err := sqlite.Open(context.Background(), path, nil)
		if err != nil {
			return err
		}
		return repo.Close()
	}))
}

// TestDataScriptsOnDynamoDB runs the data commands on a table of DynamoDB Local.
func TestDataScriptsOnDynamoDB(t *testing.T) {
	url := clitest.Engine.URL(t)
	settings := map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL": url,
	}
	for name, value := range settings {
		t.Setenv(name, value)
	}
	testscript.Run(t, params(dataScripts, "dynamodb", func(env *testscript.Env) error {
		table := "cli-" + strings.ToLower(rand.Text())
		for name, value := range settings {
			env.Setenv(name, value)
		}
		env.Setenv("TABLE", table)
		env.Setenv("ZAEL_STACK", table)
		return dynamo.CreateTable(context.Background(), table, nil)
	}))
}

// params returns the parameters for scripts on a store. The name of the store is a
// condition in the scripts.
func params(dir, store string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv(clitest.RaceVariable, clitest.LingerNot)
			return setup(env)
		},
		Condition: func(cond string) (bool, error) {
			if !slices.Contains([]string{"none", "sqlite", "dynamodb"}, cond) {
				return false, fmt.Errorf("no such condition: %s", cond)
			}
			return cond == store, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "field": fieldOf},
	}
}

// exits implements the script command "exits CODE PROGRAM ARG...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// fieldOf implements the script command "field NAME N": it sets an environment
// variable to the N-th field of the first line on stdout.
func fieldOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field NAME N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	fields := strings.Split(line, "\t")
	if n < 1 || n > len(fields) {
		ts.Fatalf("%q has no field %d", line, n)
	}
	ts.Setenv(args[0], fields[n-1])
}

// TestEveryCommandHasAScript finds commands that no script runs.
func TestEveryCommandHasAScript(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, pattern := range []string{
		scripts + "/*.txtar", dataScripts + "/*.txtar", stackScripts + "/*.txtar", tableScripts + "/*.txtar",
		localScripts + "/*.txtar",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
	}
	for _, cmd := range kit.AllCommands(tree()) {
		if cmd.HasAvailableSubCommands() {
			continue
		}
		run := regexp.MustCompile(`(?m)^(\[\S+\] )?(exec|exits \d) ` + regexp.QuoteMeta(cmd.CommandPath()) + `( |$)`)
		if !run.MatchString(text.String()) {
			t.Errorf("no script runs %q", cmd.CommandPath())
		}
	}
}
