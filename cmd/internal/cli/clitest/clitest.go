// Package clitest runs the program in tests of its families: as a command in PATH,
// with a slow clock and engines for all tests of a package.
package clitest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
	"github.com/zeroae/zae-limiter-go/internal/engine/moto"
)

// Engine is the DynamoDB of a package's tests.
var Engine = dynamodb.Share()

// Moto is the emulated AWS of a package's tests.
var Moto = moto.Share()

// Main runs the tests of a package, and does not return. It puts zae-limiter and
// other commands into PATH, and stops the engines in the end.
func Main(m testscript.TestingM, commands map[string]func()) {
	// The race detector makes every program wait a second before it exits.
	if err := os.Setenv(RaceVariable, LingerNot); err != nil {
		panic(err)
	}
	all := map[string]func(){"zae-limiter": program}
	maps.Copy(all, commands)
	testscript.Main(stopping{m}, all)
}

// An environment variable and its value, with which programs exit at once under the
// race detector.
const (
	RaceVariable = "GORACE"
	LingerNot    = "atexit_sleep_ms=0"
)

// SlowClock names an environment variable with a file that holds the time of the
// program. The time advances by a millisecond with each command. Without it, a
// script could see the end of an hour or a refill.
const SlowClock = "ZAEL_TEST_CLOCK"

// Slow creates the file of a slow clock in a folder.
func Slow(folder string) (string, error) {
	file := filepath.Join(folder, ".clock")
	return file, os.WriteFile(file, []byte("2026-01-31T15:04:05Z"), 0o600)
}

// Patient names an environment variable that makes the program wait long for a
// table. A charge without an answer is sent again, and may be paid twice: a test
// that counts charges must not depend on the speed of the engine.
const Patient = "ZAEL_TEST_PATIENT"

// program runs Main, with a slow clock and patience if they are set.
func program() {
	c := kit.NewConsole(os.Stdin, os.Stdout, os.Stderr)
	c.PurgeWait = -1
	if os.Getenv(Patient) != "" {
		c.Timeout = time.Minute
	}
	if file := os.Getenv(SlowClock); file != "" {
		text, err := os.ReadFile(file)
		now, parsed := time.Parse(time.RFC3339Nano, string(text))
		next := now.Add(time.Millisecond).Format(time.RFC3339Nano)
		if err := errors.Join(err, parsed, os.WriteFile(file, []byte(next), 0o600)); err != nil {
			panic(err)
		}
		c.Now = func() time.Time { return now }
	}
	os.Exit(cli.MainOn(c, os.Args[1:]))
}

type stopping struct{ testscript.TestingM }

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
	return Engine.Stop(Moto.Stop(s.TestingM.Run()))
}
