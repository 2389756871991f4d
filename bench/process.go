package main

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

// thisProgram is the name of this program for start. Its first argument says what
// it does as a child, see childWork.
const thisProgram = ""

// start runs a program. A nil environment means this process's own.
func start(ctx context.Context, env []string, name string, args ...string) (*child, error) {
	if name == thisProgram {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		name = self
	}

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

// wordAfter returns the word after a text, from the next line that has both.
func (c *child) wordAfter(text string) (string, error) {
	for {
		line, err := c.line()
		if err != nil {
			return "", err
		}
		if _, rest, ok := strings.Cut(line, text); ok {
			word, _, _ := strings.Cut(rest, " ")
			return word, nil
		}
	}
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

// onEngine calls work with the URL of DynamoDB Local. A machine without it leaves
// the work out and prints a line, but an interrupt ends the program.
func onEngine(ctx context.Context, cfg config, r *report, work func(endpoint string) error) error {
	if cfg.engine == "" {
		r.line("  left out: DynamoDB Local is switched off")
		return nil
	}

	engine, endpoint, err := startServer(ctx, cfg.engine, "run")
	if err != nil {
		r.line("  left out, since DynamoDB Local does not start: %s", oneLine(err))
		return ctx.Err()
	}
	return errors.Join(work(endpoint), engine.close())
}

// onStub calls work with the URL of a stub that answers after a delay.
func onStub(ctx context.Context, delay time.Duration, work func(endpoint string) error) error {
	stub, endpoint, err := startServer(ctx, thisProgram, stubCommand, delay.String())
	if err != nil {
		return err
	}
	return errors.Join(work(endpoint), stub.close())
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// runWhile runs a program that has nothing to save until in ends, or for an hour,
// and then kills it. A child runs it, so that the program ends with this process.
func runWhile(ctx context.Context, in io.Reader, out, errs io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, errs
	go func() { _, _ = io.Copy(io.Discard, in); cancel() }()

	err := cmd.Run()
	if ctx.Err() != nil { // it was killed
		return nil
	}
	return err
}
