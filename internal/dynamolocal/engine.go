// Package dynamolocal starts DynamoDB Local for the tests of this module. It
// knows how the engine is started and stopped, not how to talk to it, so that
// tests without the AWS SDK can have one too.
package dynamolocal

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

// EndpointVariable names the environment variable that has the URL of an engine
// that runs already. Where it is set, Start starts nothing.
const EndpointVariable = "ZAEL_TEST_DYNAMODB_ENDPOINT"

// ErrMissing is the error of Start where the programs for an engine, or its
// script, are missing. Its text says which.
var ErrMissing = errors.New("DynamoDB Local cannot run here")

const (
	missingProgram = 3               // the script's exit code
	missingShell   = 127             // the exit code if it cannot even start
	patience       = 5 * time.Minute // its first run downloads the engine
)

// Engine is an engine that runs, made by Start. It stops when this process
// dies, in whatever way, unless it ran before.
type Engine struct {
	url    string
	script *process // nil if it ran before
}

// Start starts an engine and waits until it answers; the very first time it is
// downloaded. The script that does so is found from the folder of any package
// of the module, which is where tests run. No goroutine is left behind, so a
// test that looks for leaked ones may be the first to need an engine.
func Start() (*Engine, error) {
	if url := os.Getenv(EndpointVariable); url != "" {
		return &Engine{url: url}, nil
	}
	script, err := findScript()
	if err != nil {
		return nil, err
	}
	return launch(script, "run")
}

// URL is where the engine answers.
func (e *Engine) URL() string { return e.url }

// Stop ends the engine and returns once it is gone. It must be called once, and
// does nothing to an engine that ran before.
func (e *Engine) Stop() error {
	if e.script == nil {
		return nil
	}
	return e.script.stop()
}

// process is a script that runs until its input is closed, which also happens
// when this process dies.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// launch has no goroutines. Hence files and a deadline, not buffers.
func launch(name string, args ...string) (*Engine, error) {
	stderr, err := os.CreateTemp("", "dynamodb-local-*.log")
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
		return &Engine{url: strings.TrimSpace(line), script: p}, nil
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
