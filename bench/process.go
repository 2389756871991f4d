package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// child is a program that answers in lines and runs until its input is closed,
// which also happens when this process dies, in whatever way.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// exitLimit is how long a child may take to end once its input is closed.
const exitLimit = 10 * time.Second

// start runs a program with an environment, nil for this process's own.
func start(ctx context.Context, env []string, name string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, name, args...)}
	c.cmd.Env, c.cmd.Stderr, c.cmd.WaitDelay = env, &c.errs, exitLimit
	in, inErr := c.cmd.StdinPipe()
	out, outErr := c.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	c.cmd.Cancel = in.Close // a script that is killed would leave its own children behind
	return c, c.cmd.Start()
}

// line is the next line of its output. Without one the child is ended, and the
// error has what it said.
func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		ended := c.close()
		return "", fmt.Errorf("%s: %w", c.cmd.Args[0], errors.Join(err, ended, errors.New(strings.TrimSpace(c.errs.String()))))
	}
	return strings.TrimSpace(line), nil
}

// close ends it and waits until it has.
func (c *child) close() error {
	_ = c.in.Close() // it may be gone already: Wait tells
	return c.cmd.Wait()
}

// startServer is start for a program whose first line is its URL.
func startServer(ctx context.Context, name string, args ...string) (*child, string, error) {
	c, err := start(ctx, nil, name, args...)
	if err != nil {
		return nil, "", err
	}
	url, err := c.line()
	return c, url, err
}
