//go:build unix

package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	roleVar = "CHILD_TEST_ROLE"
	fdVar   = "CHILD_TEST_FD"
)

// TestMain lets the test binary run as one of the processes that tests need.
func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "parent":
		os.Exit(parent())
	case "catcher":
		os.Exit(catcher())
	case "hasty parent":
		os.Exit(hastyParent())
	}
	os.Exit(m.Run())
}

// parent runs its arguments, prints what they report, and exits with their code.
func parent() int {
	fd, _ := strconv.Atoi(os.Getenv(fdVar))
	code, err := Run(Command{
		Args:     os.Args[1:],
		Env:      []string{roleVar + "=catcher"},
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		ReportFD: fd,
		Report:   func(line string) { fmt.Println("report:", line) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Fprintln(os.Stderr, "settled")
	return code
}

// catcher prints each signal it receives. SIGTERM ends it.
func catcher() int {
	caught := make(chan os.Signal, 64)
	signal.Notify(caught, toPassOn...)
	fmt.Println("ready", os.Getppid())
	for sig := range caught {
		fmt.Println(sig)
		if sig == unix.SIGTERM {
			break
		}
	}
	return 42
}

// hastyParent receives an interrupt before it starts its child. When the child has
// received it, hastyParent terminates the child.
func hastyParent() int {
	cmd := exec.CommandContext(context.Background(), "cat")
	_, _ = cmd.StdinPipe()
	s := catchSignals()
	s.passed <- unix.SIGINT
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	s.passTo(cmd.Process)
	s.release()
	_ = cmd.Process.Signal(unix.SIGTERM)
	_ = cmd.Wait()
	fmt.Fprintln(os.Stderr, "settled")
	return exitCode(cmd.ProcessState)
}

// family is a parent and its child. Tests read its output line by line.
type family struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Scanner
	stderr bytes.Buffer
	parent int // process ID, set by ready
}

// newFamily starts a family in a session of its own, without a terminal, so that
// signals do not depend on where the tests run.
func newFamily(t *testing.T, args ...string) *family {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	f := &family{t: t, cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	f.cmd.Env = append(os.Environ(), roleVar+"=parent")
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	f.cmd.Cancel = func() error { return unix.Kill(-f.cmd.Process.Pid, unix.SIGKILL) }
	f.cmd.Stderr = &f.stderr
	return f
}

func (f *family) start() {
	f.t.Helper()
	out, err := f.cmd.StdoutPipe()
	check(f.t, err)
	f.stdout = bufio.NewScanner(out)
	check(f.t, f.cmd.Start())
}

// ready waits for the catcher.
func (f *family) ready() {
	f.t.Helper()
	f.stdout.Scan()
	pid, ok := strings.CutPrefix(f.stdout.Text(), "ready ")
	if !ok {
		f.t.Fatalf("the catcher says %q", f.stdout.Text())
	}
	var err error
	f.parent, err = strconv.Atoi(pid)
	check(f.t, err)
}

// signal sends a signal to the parent.
func (f *family) signal(sig unix.Signal) {
	f.t.Helper()
	check(f.t, unix.Kill(f.parent, sig))
}

// caught waits for the next line of the catcher.
func (f *family) caught(want unix.Signal) {
	f.t.Helper()
	f.stdout.Scan()
	if got := f.stdout.Text(); got != want.String() {
		f.t.Fatalf("the child got %q, want %q", got, want)
	}
}

// end waits until the parent exits with this code.
func (f *family) end(code int) {
	f.t.Helper()
	for f.stdout.Scan() {
		f.t.Errorf("left over: %q", f.stdout.Text())
	}
	f.settled(f.cmd.Wait(), code)
}

func (f *family) settled(err error, code int) {
	f.t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code {
		f.t.Errorf("the parent ended with %v, want exit status %d", err, code)
	}
	if got := f.stderr.String(); got != "settled\n" {
		f.t.Errorf("the parent says %q, want settled", got)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// self returns the path of the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

// shell returns a command for sh.
func shell(script string, args ...string) Command {
	return Command{Args: append([]string{"sh", "-c", script, "sh"}, args...)}
}

// pipe returns a pipe that is closed after the test.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() { r.Close() })
	t.Cleanup(func() { w.Close() })
	return r, w
}
