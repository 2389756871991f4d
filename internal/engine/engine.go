// Package engine runs what tests of this repository use beside Go: servers such
// as DynamoDB Local, and tools such as Locust. Each has a script in the folder
// scripts. The script of a server prints the URL and runs until its input is
// closed. The script of a tool installs it and prints its path. The packages below
// this one are the servers.
package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrMissing is returned by Start, Run and Setup if the script, or a program that
// it needs, is missing. The wrapping error names it. [Require] decides what that
// means for a test.
var ErrMissing = errors.New("a local server cannot run here")

const (
	missingProgram = 3               // the exit code of a script that lacks a program
	missingShell   = 127             // the exit code if the script cannot start
	startTimeout   = 5 * time.Minute // the first run downloads the server
)

// Server is a running server. If Start started it, it stops when this process
// dies.
type Server struct {
	url    string
	script *process // nil if Start did not start it
}

// Start runs a script of the directory scripts with the argument run, and waits
// until it prints the URL of its server. The first run downloads the server. The
// working directory can be any directory of the module. If the environment
// variable is set, Start returns the server at that URL and runs nothing. Start
// leaves no goroutine behind, so that tests which look for leaks can use it.
func Start(script, variable string) (*Server, error) {
	if url := os.Getenv(variable); url != "" {
		return &Server{url: url}, nil
	}
	return Run(script)
}

// Run starts a server like Start, with more arguments for the script.
func Run(script string, args ...string) (*Server, error) {
	name, err := findScript(script)
	if err != nil {
		return nil, err
	}
	return launch(name, append([]string{"run"}, args...)...)
}

// Setup runs a script that installs a tool unless it is installed, and returns the
// path that the script prints.
func Setup(ctx context.Context, script string) (string, error) {
	name, err := findScript(script)
	if err != nil {
		return "", err
	}

	output, err := exec.CommandContext(ctx, name, "setup").Output()
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return strings.TrimSpace(string(output)), nil
	// Windows needs a shell to start a script.
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	case exit == nil:
		return "", fmt.Errorf("scripts/%s setup: %w", script, err)
	case exit.ExitCode() == missingProgram:
		return "", fmt.Errorf("%w: %s", ErrMissing, bytes.TrimSpace(exit.Stderr))
	}
	return "", fmt.Errorf("scripts/%s setup: %w\n%s%s", script, err, exit.Stderr, output)
}

// findScript returns the path of a script in the module of the working directory,
// or in a module around it that has the script.
func findScript(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for parent := dir; ; parent = filepath.Dir(parent) {
		script := filepath.Join(parent, "scripts", name)
		// A folder named scripts counts only beside a go.mod, since any other
		// folder may have one.
		_, outside := os.Stat(filepath.Join(parent, "go.mod"))
		if _, err := os.Stat(script); err == nil && outside == nil {
			return script, nil
		}

		if parent == filepath.Dir(parent) {
			return "", fmt.Errorf(
				"%w: script %s: no module around %s has it; run the test in a directory of this module",
				ErrMissing, name, dir,
			)
		}
	}
}

// URL returns the base URL of the server.
func (s *Server) URL() string { return s.url }

// Stop stops the server and waits for its end. It must be called once. It does
// nothing to a server that Start did not start.
func (s *Server) Stop() error {
	if s.script == nil {
		return nil
	}
	return s.script.stop()
}

// process is a script that runs until its input is closed. The system closes it
// when this process dies.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// launch starts a script and reads the URL that it prints. It uses files and a
// deadline instead of buffers, since those need goroutines.
func launch(name string, args ...string) (*Server, error) {
	stderr, err := os.CreateTemp("", "engine-*.log")
	if err != nil {
		return nil, err
	}

	// The child has its own descriptor of the file, so the name can go after
	// the start.
	defer func() { _ = errors.Join(stderr.Close(), os.Remove(stderr.Name())) }()

	stdout, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()

	p := &process{cmd: exec.CommandContext(context.Background(), name, args...)}
	p.cmd.Stdout, p.cmd.Stderr = output, stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, output.Close())
	}

	// Without this end of the pipe in our process, the read ends when the
	// script does.
	err = errors.Join(p.cmd.Start(), output.Close(), stdout.SetReadDeadline(time.Now().Add(startTimeout)))
	if p.cmd.Process == nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}

	if line, failed := bufio.NewReader(stdout).ReadString('\n'); failed == nil && err == nil {
		return &Server{url: strings.TrimSpace(line), script: p}, nil
	}

	return nil, p.explain(stderr)
}

// explain stops a script that printed no URL and returns an error with its output.
func (p *process) explain(stderr io.ReadSeeker) error {
	err := p.stop()
	_, seek := stderr.Seek(0, io.SeekStart)
	output, read := io.ReadAll(stderr)
	text := bytes.TrimSpace(output)
	if code := p.cmd.ProcessState.ExitCode(); code == missingProgram || code == missingShell {
		return fmt.Errorf("%w: %s", ErrMissing, text)
	}
	return fmt.Errorf("%s printed no URL: %w\n%s", p.cmd,
		errors.Join(errors.New(p.cmd.ProcessState.String()), err, seek, read), text)
}

func (p *process) stop() error {
	// A server that hangs must not hang the tests.
	kill := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}
