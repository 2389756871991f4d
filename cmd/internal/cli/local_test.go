package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
)

const localScripts = "testdata/script/local" // run with fake programs and with DynamoDB Local

// TestLocalScripts runs the commands that start engines.
func TestLocalScripts(t *testing.T) {
	t.Parallel()
	cache := fetchEngine(t)
	program, err := exec.LookPath("zae-limiter")
	if err != nil {
		t.Fatal(err)
	}
	p := params(localScripts, "none", func(env *testscript.Env) error {
		for name, value := range map[string]string{
			"PROGRAM": program, "PORT": strconv.Itoa(freePort(t)), "ZAEL_CACHE": cache, "JAVA_HOME": "",
			"XDG_STATE_HOME": filepath.Join(env.WorkDir, "state"),
		} {
			env.Setenv(name, value)
		}
		env.Defer(func() { stopEngines(t, filepath.Join(env.WorkDir, "state")) })
		return addFakeDocker(env)
	})
	p.Cmds["eventually"], p.Cmds["serve"], p.Cmds["free"] = eventually, serve, free
	p.Cmds["killed"], p.Cmds["reuse"] = killEngine, reuseNumber
	testscript.Run(t, p)
}

// addFakeDocker adds testdata/docker to a script, which plays Docker if the script
// puts FAKES into the PATH. FAKE is its folder.
func addFakeDocker(env *testscript.Env) error {
	docker, err := os.ReadFile("testdata/docker")
	for _, name := range []string{"FAKE", "FAKES"} {
		env.Setenv(name, filepath.Join(env.WorkDir, strings.ToLower(name)))
		err = errors.Join(err, os.Mkdir(env.Getenv(name), 0o700))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(env.Getenv("FAKES"), "docker"), docker, 0o700))
}

// fetchEngine fetches DynamoDB Local into the cache of all tests and returns the
// cache. It skips the test if programs are missing, and fails it in CI.
func fetchEngine(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake programs are shell scripts")
	}
	cache := os.Getenv("ZAEL_CACHE")
	if cache == "" {
		cache = "../../../.cache"
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "../../../scripts/dynamodb-local", "fetch").CombinedOutput()
	const missing = 3
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == missing &&
		os.Getenv("CI") != "true" {
		t.Skip(string(out))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cache
}

// freePort returns a free port below those that the system assigns, and outside of
// those that scripts/dynamodb-local uses.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(10_000)
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// records returns the engines of a state folder.
func records(state string) (all []*local.Engine, err error) {
	files, err := filepath.Glob(filepath.Join(state, "zae-limiter", "local", "*", "engine.json"))
	for _, name := range files {
		text, failed := os.ReadFile(name)
		e := &local.Engine{}
		if err = errors.Join(err, failed); json.Unmarshal(text, e) == nil {
			all = append(all, e)
		}
	}
	return all, err
}

// stopEngines stops what a failed script left running.
func stopEngines(t *testing.T, state string) {
	t.Helper()
	all, err := records(state)
	if err != nil {
		t.Error(err)
	}
	for _, e := range all {
		for _, p := range e.Aggregators {
			_ = p.Stop(context.Background())
		}
		if e.Process != nil {
			_ = e.Process.Stop(context.Background())
		}
	}
}

// eventually implements the script command "eventually PATTERN PROGRAM ARG...". It
// repeats the program until its output matches.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM ARG...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(time.Minute); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no output matches %s: %v", want, err)
		}
	}
}

// serve implements the script command "serve PORT": an HTTP server of another
// program, until the script ends.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve PORT")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+args[0])
	ts.Check(err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until Close
	ts.Defer(func() { _ = server.Close() })
}

// free implements the script command "free PORT": nothing listens there.
func free(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: free PORT")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+args[0])
	ts.Check(err)
	ts.Check(l.Close())
}

// killEngine implements the script command "killed PORT": the engine dies, and its
// record stays.
func killEngine(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(recordAt(ts, args).Process.Stop(context.Background()))
}

// recordAt returns the record of the engine at a port.
func recordAt(ts *testscript.TestScript, args []string) *local.Engine {
	all, err := records(ts.Getenv("XDG_STATE_HOME"))
	ts.Check(err)
	for _, e := range all {
		if len(args) == 1 && strconv.Itoa(e.Port) == args[0] {
			return e
		}
	}
	ts.Fatalf("no engine is recorded at port %v", args)
	return nil
}

// reuseNumber implements the script command "reuse PORT": the record of an engine
// names this process, with another start time.
func reuseNumber(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: reuse PORT")
	}
	port, err := strconv.Atoi(args[0])
	ts.Check(err)
	text, err := json.Marshal(local.Engine{
		Kind: local.DynamoDB, Port: port, Process: &local.Process{PID: os.Getpid(), Start: "another"},
	})
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "zae-limiter", "local", args[0], "engine.json"),
		text, 0o600))
}

// fakeEngine plays DynamoDB Local: it answers every request, until it is killed.
func fakeEngine() {
	port := os.Args[len(os.Args)-1]
	fmt.Println("fake engine at", port)
	server := &http.Server{
		Addr: "127.0.0.1:" + port, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this is no DynamoDB", http.StatusBadRequest)
		}),
	}
	fmt.Println(server.ListenAndServe())
	os.Exit(1)
}

// fakePrograms writes shell scripts that play java and mvn, and returns the
// environment of commands that use them and DynamoDB Local from a cache.
func fakePrograms(t *testing.T, engine, maven, cache string) (env []string, state string) {
	t.Helper()
	bin, state := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"java": "case $1 in --list-modules) echo jdk.compiler@17; exit;; esac\n" + engine, "mvn": maven,
		"docker": "exit 1",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { stopEngines(t, state) })
	return append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "JAVA_HOME=",
		"ZAEL_CACHE="+cache, "XDG_STATE_HOME="+state), state
}

const answering = `exec fake-engine "$@"`

// Two commands start an engine at once: one starts it, the other finds it.
func TestTwoUpsShareAnEngine(t *testing.T) {
	env, state := fakePrograms(t, answering, "exit 1", fetchEngine(t))
	port := strconv.Itoa(freePort(t))
	var talks [2]strings.Builder
	var all [2]*exec.Cmd
	for i := range all {
		all[i] = exec.CommandContext(t.Context(), "zae-limiter", "local", "up", "--no-deploy", "--port", port)
		all[i].Env, all[i].Stderr = env, &talks[i]
		if err := all[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	started := 0
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &talks[i])
		}
		started += strings.Count(talks[i].String(), "is running at http://localhost:"+port)
	}
	if engines, err := records(state); started != 1 || len(engines) != 1 || err != nil || !engines[0].Process.Alive() {
		t.Errorf("%d started, %d recorded, %v; want one that runs: %s%s", started, len(engines), err, &talks[0],
			&talks[1])
	}
}

// An interrupt while the engine starts or is fetched stops that, too, and leaves
// nothing half-written.
func TestInterruptedUpLeavesNothing(t *testing.T) {
	cache, empty, folder := fetchEngine(t), t.TempDir(), t.TempDir()
	blocked := func(name string) (fifo, script string) {
		fifo = filepath.Join(folder, name)
		if err := exec.CommandContext(t.Context(), "mkfifo", fifo).Run(); err != nil {
			t.Fatal(err)
		}
		return fifo, "echo $$ >'" + fifo + "'; while :; do sleep 0.1; done"
	}
	java, engine := blocked("java")
	mvn, maven := blocked("mvn")
	env, state := fakePrograms(t, engine, "exit 1", cache)
	interruptUp(t, env, state, java)
	env, state = fakePrograms(t, "exit 1", maven, empty)
	interruptUp(t, env, state, mvn)
	if left, err := filepath.Glob(filepath.Join(empty, "dynamodb-local", "*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left of the fetch, %v", left, err)
	}
}

// interruptUp interrupts up as soon as the program that it started writes its
// number to a pipe.
func interruptUp(t *testing.T, env []string, state, pipe string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "local", "up", "--port", strconv.Itoa(freePort(t)))
	var talk strings.Builder
	cmd.Env, cmd.Stderr = env, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(pipe) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != kit.ExitFailed ||
		!strings.Contains(talk.String(), "zae-limiter: interrupted") {
		t.Errorf("%v: %s", err, &talk)
	}
	if engines, err := records(state); len(engines) != 0 || err != nil {
		t.Errorf("%d engines are recorded, %v", len(engines), err)
	}
	// A zombie has ended, though its new parent may never look at it.
	if out, _ := exec.CommandContext(
		t.Context(), "ps", "-o", "stat=", "-p", strings.TrimSpace(string(pid)),
	).Output(); len(out) > 0 && out[0] != 'Z' {
		t.Errorf("process %s still runs: %s", pid, out)
	}
}

// Following a log ends with an interrupt, as a success.
func TestInterruptedLogs(t *testing.T) {
	env, _ := fakePrograms(t, answering, "exit 1", fetchEngine(t))
	up := exec.CommandContext(t.Context(), "zae-limiter", "local", "up", "--no-deploy", "--port",
		strconv.Itoa(freePort(t)))
	up.Env = env
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "zae-limiter", "local", "logs", "--follow")
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Error(err)
	}
}
