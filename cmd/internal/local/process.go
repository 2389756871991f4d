package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// grace is how long a process or container has to end before it is killed.
const grace = 10 * time.Second

// poll is the interval between two looks at a process or an engine.
const poll = 100 * time.Millisecond

// Process identifies a process of this machine. A number is used again after the
// process has ended, so the start time is part of the identity.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in a form of the operating system
}

// Alive reports whether the process still runs. It is false for another process
// with the same number.
func (p Process) Alive() bool {
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// Stop asks the process to end and kills it after a grace period. It never signals
// another process with the same number. A process that has ended is a success.
func (p Process) Stop(ctx context.Context) error {
	if !p.Alive() {
		return nil
	}

	// A process that ends by itself meanwhile makes the signal fail.
	if err := terminate(p.PID); err != nil && p.Alive() {
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}

	if p.ended(ctx, grace) {
		return nil
	}

	if ctx.Err() != nil {
		return ctx.Err()
	}

	if err := kill(p.PID); err != nil && p.Alive() {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}

	if !p.ended(ctx, grace) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

// ended waits for the end of the process. It gives up after a timeout, and early
// if ctx ends.
func (p Process) ended(ctx context.Context, timeout time.Duration) bool {
	deadline := time.After(timeout)
	tick := time.NewTicker(poll)
	defer tick.Stop()

	for p.Alive() {
		select {
		case <-deadline:
			return false
		case <-ctx.Done():
			return !p.Alive()
		case <-tick.C:
		}
	}
	return true
}

// daemon is a started process in a session of its own, so that it survives this
// program and the signals of its terminal.
type daemon struct {
	Process
	exited chan error // receives the result once
}

// startDaemon starts a program with its output in a file, which is emptied first.
func (f *Folder) startDaemon(cmd *exec.Cmd, log string) (*daemon, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, f.explain(err)
	}

	// The child has its own descriptor.
	defer func() { _ = file.Close() }()

	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = detached()

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Path, err)
	}

	d := &daemon{Process: Process{PID: cmd.Process.Pid}, exited: make(chan error, 1)}
	// The process is our child until Wait returns, so its number is not reused
	// yet.
	d.Start, err = startTime(d.PID)

	go func() { d.exited <- cmd.Wait() }()
	// An empty start time matches no process, so a process that ended at once
	// is not alive.
	if err != nil {
		d.Start = ""
	}
	return d, nil
}
