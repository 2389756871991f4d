// Package localserver starts the servers that tests of this module talk to,
// each by a script that prints its URL and runs until its input is closed. It
// knows how they are started and stopped, not what they are.
package localserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// ErrMissing is the error of Start where the programs for a server, or its
// script, are missing. The text around it says which.
var ErrMissing = errors.New("a local server cannot run here")

const (
	missingProgram = 3               // the script's exit code
	missingShell   = 127             // the exit code if it cannot even start
	patience       = 5 * time.Minute // its first run downloads the server
)

// Server is a server that runs, made by Start. It stops when this process dies,
// in whatever way, unless it ran before.
type Server struct {
	url    string
	script *process // nil if it ran before
}

// Start runs a script of the folder scripts with the argument run, and waits
// until it prints the URL of its server; the very first time the server is
// downloaded. The script is found from the folder of any package of the module,
// which is where tests run. Where the environment variable has a URL, that is
// the server and nothing is started. No goroutine is left behind, so a test that
// looks for leaked ones may be the first to need a server.
func Start(script, variable string) (*Server, error) {
	if url := os.Getenv(variable); url != "" {
		return &Server{url: url}, nil
	}
	name, err := findScript(script)
	if err != nil {
		return nil, err
	}
	return launch(name, "run")
}

// URL is where the server answers.
func (s *Server) URL() string { return s.url }

// Stop ends the server and returns once it is gone. It must be called once, and
// does nothing to a server that ran before.
func (s *Server) Stop() error {
	if s.script == nil {
		return nil
	}
	return s.script.stop()
}

// process is a script that runs until its input is closed, which also happens
// when this process dies.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// launch has no goroutines. Hence files and a deadline, not buffers.
func launch(name string, args ...string) (*Server, error) {
	stderr, err := os.CreateTemp("", "localserver-*.log")
	if err != nil {
		return nil, err
	}
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
	err = errors.Join(p.cmd.Start(), output.Close(), stdout.SetReadDeadline(time.Now().Add(patience)))
	if p.cmd.Process == nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if line, failed := bufio.NewReader(stdout).ReadString('\n'); failed == nil && err == nil {
		return &Server{url: strings.TrimSpace(line), script: p}, nil
	}
	return nil, p.explain(stderr)
}

// explain stops a script that printed no URL and says why it did not.
func (p *process) explain(stderr io.ReadSeeker) error {
	err := p.stop()
	_, seek := stderr.Seek(0, io.SeekStart)
	said, read := io.ReadAll(stderr)
	text := bytes.TrimSpace(said)
	if code := p.cmd.ProcessState.ExitCode(); code == missingProgram || code == missingShell {
		return fmt.Errorf("%w: %s", ErrMissing, text)
	}
	return fmt.Errorf("%s gave no URL: %w\n%s", p.cmd, errors.Join(errors.New(p.cmd.ProcessState.String()), err, seek, read), text)
}

func (p *process) stop() error {
	kill := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}
