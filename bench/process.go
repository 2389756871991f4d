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

// child is a program that prints lines and runs until its input is closed. The
// input is also closed when this process dies.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// exitLimit is the time that a child has to exit after its input is closed.
const exitLimit = 10 * time.Second

// start runs a program. A nil environment means this process's own.
func start(ctx context.Context, env []string, name string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, name, args...)}
	c.cmd.Env, c.cmd.Stderr, c.cmd.WaitDelay = env, &c.errs, exitLimit
	in, inErr := c.cmd.StdinPipe()
	out, outErr := c.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	c.cmd.Cancel = in.Close // a killed script would leave its own children behind
	return c, c.cmd.Start()
}

// line returns the next line of output. Without one, it ends the child and
// returns an error with the child's messages.
func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		ended := c.close()
		return "", fmt.Errorf("%s: %w", c.cmd.Args[0],
			errors.Join(err, ended, errors.New(strings.TrimSpace(c.errs.String()))))
	}
	return strings.TrimSpace(line), nil
}

// close ends the child and waits for it.
func (c *child) close() error {
	_ = c.in.Close() // it may have exited already; Wait reports that
	return c.cmd.Wait()
}

// startServer starts a program whose first line is its URL.
func startServer(ctx context.Context, name string, args ...string) (*child, string, error) {
	c, err := start(ctx, nil, name, args...)
	if err != nil {
		return nil, "", err
	}
	url, err := c.line()
	return c, url, err
}
