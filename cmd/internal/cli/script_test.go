package cli

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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/dynamolocal"
	"github.com/zeroae/zae-limiter-go/internal/motolocal"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestMain makes the program a command of the scripts, and stops the engines they
// used.
func TestMain(m *testing.M) {
	// The race detector makes every program wait a second before it exits.
	if err := os.Setenv(raceVariable, lingerNot); err != nil {
		panic(err)
	}
	testscript.Main(stopping{m}, map[string]func(){
		"zae-limiter": program, "fake-engine": fakeEngine, "session-manager-plugin": forwardPort,
		"loadworker": loadFunction, "xdg-open": fakeBrowser, "xdg-settings": defaultBrowser,
	})
}

const raceVariable, lingerNot = "GORACE", "atexit_sleep_ms=0"

// slowClock names an environment variable with a file that holds the time of the
// program. The time advances by a millisecond with each command. Without it, a
// script could see the end of an hour or a refill.
const slowClock = "ZAEL_TEST_CLOCK"

// slow creates the file of a slow clock in a folder.
func slow(folder string) (string, error) {
	file := filepath.Join(folder, ".clock")
	return file, os.WriteFile(file, []byte("2026-01-31T15:04:05Z"), 0o600)
}

// patient names an environment variable that makes the program wait long for a
// table. A charge without an answer is sent again, and may be paid twice: a test
// that counts charges must not depend on the speed of the engine.
const patient = "ZAEL_TEST_PATIENT"

// program runs Main, with a slow clock and patience if they are set.
func program() {
	c := kit.NewConsole(os.Stdin, os.Stdout, os.Stderr)
	c.PurgeWait = -1
	if os.Getenv(patient) != "" {
		c.Timeout = time.Minute
	}
	if file := os.Getenv(slowClock); file != "" {
		text, err := os.ReadFile(file)
		now, parsed := time.Parse(time.RFC3339Nano, string(text))
		next := now.Add(time.Millisecond).Format(time.RFC3339Nano)
		if err := errors.Join(err, parsed, os.WriteFile(file, []byte(next), 0o600)); err != nil {
			panic(err)
		}
		c.Now = func() time.Time { return now }
	}
	os.Exit(main(c, os.Args[1:]))
}

type stopping struct{ *testing.M }

// Run runs the tests in a clean environment.
func (s stopping) Run() int {
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		ours := strings.HasPrefix(name, "ZAEL_") && !strings.HasPrefix(name, "ZAEL_TEST_") && name != "ZAEL_CACHE"
		if ours || strings.HasPrefix(name, "AWS_") || name == "NO_COLOR" || name == "COLUMNS" {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("TERM", "xterm")
	folder, err := os.MkdirTemp("", "zae-limiter-released-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	releasedFolder = folder
	return sharedEngine.Stop(sharedMoto.Stop(s.M.Run()))
}

var sharedEngine, sharedMoto = dynamolocal.Share(), motolocal.Share()

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
		clock, err := slow(env.WorkDir)
		if err != nil {
			return err
		}
		env.Setenv("ZAEL_STORE", "sqlite:"+path)
		env.Setenv(slowClock, clock)
		repo, err := sqlite.Open(context.Background(), path, nil)
		if err != nil {
			return err
		}
		return repo.Close()
	}))
}

// TestDataScriptsOnDynamoDB runs the data commands on a table of DynamoDB Local.
func TestDataScriptsOnDynamoDB(t *testing.T) {
	url := sharedEngine.URL(t)
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
			env.Setenv(raceVariable, lingerNot)
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
