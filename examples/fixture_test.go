package examples

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/engine"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	localmoto "github.com/zeroae/zae-limiter-go/internal/engine/moto"
)

var (
	update = flag.Bool("update", false, "write what the examples print into their files output.txt")
	dynamo = dynamodb.Share()
	moto   = localmoto.Share()
	bin    string // the folder of the built programs
)

// TestMain stops the engines that all tests share, and removes the programs.
func TestMain(m *testing.M) {
	flag.Parse()
	folder, err := os.MkdirTemp("", "examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = folder
	code := moto.Stop(dynamo.Stop(m.Run()))
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build builds packages of the module in a folder into bin.
func build(folder string, packages ...string) error {
	command := exec.CommandContext(context.Background(), "go",
		append([]string{"build", "-o", bin + string(filepath.Separator)}, packages...)...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", packages, err, out)
	}
	return nil
}

// buildPrograms builds the examples that are one program, in one go.
var buildPrograms = sync.OnceValue(func() error {
	return build(".", "./basic", "./dynamodb-deploy", "./hierarchy", "./llm-streaming", "./multi-tenant",
		"./spend-budget", "./worker-queue")
})

// buildCommand builds zae-limiter, in place of an installed one.
var buildCommand = sync.OnceValue(func() error { return build("..", "./cmd/zae-limiter") })

// program returns the path of a built program.
func program(t *testing.T, name string, build func() error) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	return path
}

// run runs a command with more environment variables and returns what it prints on
// stdout. The command must succeed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	return runIn(t, "", env, name, args...)
}

// runIn runs a command like run, in a folder.
func runIn(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Dir = folder
	command.Env = append(os.Environ(), env...)
	command.WaitDelay = 10 * time.Second
	err := command.Run()
	t.Logf("%s %v\n%s%s", filepath.Base(name), args, &stdout, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

// setup runs a script of the project that installs something, and returns the path
// that it prints. If a program for it is missing, setup skips the test, or fails it
// in CI.
func setup(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a shell")
	}
	path, err := engine.Setup(t.Context(), script)
	engine.Require(t, err)
	return path
}

// account returns the environment of a program that uses a local engine.
func account(endpoint string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + endpoint, "AWS_DEFAULT_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// duration matches what depends on the speed of the machine, such as 9ms, 20m and 19m59s.
var duration = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|h|m|s))+\b`)

// compare compares what an example prints with its file output.txt, but for
// durations.
func compare(t *testing.T, example, got string) {
	t.Helper()
	file := filepath.Join(example, "output.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if duration.ReplaceAllString(got, "TIME") != duration.ReplaceAllString(string(want), "TIME") {
		t.Errorf("%s prints\n%s\nwant, but for durations,\n%s\nIf this is right, run: go test . -run %s -update",
			example, got, want, t.Name())
	}
}
