package infra

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// Timing of a task.
const (
	taskPoll     = 2 * time.Second
	taskTimeout  = 2 * time.Minute // until it runs
	agentTimeout = time.Minute     // then, until its exec agent runs
	stopTimeout  = 2 * time.Minute
)

// wait waits until the task runs and its master accepts sessions.
func (t *LoadTask) wait(ctx context.Context) error {
	_, err := t.until(ctx, taskTimeout, taskRunning, func(task *ecsTask) bool {
		return task.LastStatus == taskRunning
	})
	if err != nil {
		return err
	}

	task, err := t.until(ctx, agentTimeout, "reachable", func(task *ecsTask) bool {
		return task.container(MasterContainer).hasAgent()
	})
	if err != nil {
		return err
	}

	t.runtime = task.container(MasterContainer).RuntimeID
	return nil
}

// until polls the task until done returns true. It returns an error if the task
// stops or time is over.
func (t *LoadTask) until(
	ctx context.Context, timeout time.Duration, what string, done func(*ecsTask) bool,
) (*ecsTask, error) {
	status := ""
	for range timeout / taskPoll {
		task, err := t.describe(ctx)
		if err != nil {
			return nil, err
		}

		if done(task) {
			return task, nil
		}

		status = task.LastStatus
		// A task that is to stop will not run again, whatever its status is yet.
		if status == taskStopped || task.DesiredStatus == taskStopped {
			return nil, fmt.Errorf("task %s stopped: %s", t.ID, stopReason(task))
		}

		t.opts.Progress("task is " + strings.ToLower(status))
		if err := pause.For(ctx, min(taskPoll, t.s.opts.Poll)); err != nil {
			return nil, err
		}
	}

	return nil, fmt.Errorf("task %s is not %s after %v; its status is %s", t.ID, what, timeout, status)
}

func (t *LoadTask) describe(ctx context.Context) (*ecsTask, error) {
	tasks, err := t.s.containers.describeTasks(ctx, t.Cluster, t.ID)
	switch {
	case err != nil:
		return nil, err
	case len(tasks) == 0:
		return nil, fmt.Errorf("task %s does not exist any more", t.ID)
	}
	return &tasks[0], nil
}

// Stop stops the task. It works after ctx has ended, and has a timeout of its own.
func (t *LoadTask) Stop(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()

	if err := t.s.containers.stopTask(ctx, t.Cluster, t.ID, "stopped by zae-limiter"); err != nil {
		return fmt.Errorf("stop task %s of cluster %s: %w; it may still be running", t.ID, t.Cluster, explain(err))
	}
	return nil
}

// stopAndWait stops the task and waits until it has stopped.
func (t *LoadTask) stopAndWait(ctx context.Context) error {
	if err := t.Stop(ctx); err != nil {
		return err
	}

	for range stopTimeout / taskPoll {
		task, err := t.describe(ctx)
		if err != nil {
			return err
		}
		if task.LastStatus == taskStopped {
			return nil
		}

		if err := pause.For(ctx, min(taskPoll, t.s.opts.Poll)); err != nil {
			return err
		}
	}

	return fmt.Errorf("task %s has not stopped after %v", t.ID, stopTimeout)
}

// stopReason returns why a task stopped, of the task and of its containers.
func stopReason(task *ecsTask) string {
	reason := cmp.Or(task.StoppedReason, "ECS gave no reason")
	// A reason says more than an exit code, which a container that never ran
	// lacks.
	for _, c := range task.Containers {
		switch {
		case c.Reason != "":
			reason += fmt.Sprintf("; %s: %s", c.Name, c.Reason)
		case c.ExitCode != nil:
			reason += fmt.Sprintf("; %s exited with %d", c.Name, *c.ExitCode)
		}
	}
	return reason
}
