package infra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

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
	_, err := t.until(ctx, taskTimeout, "RUNNING", func(task *types.Task) bool {
		return aws.ToString(task.LastStatus) == "RUNNING"
	})
	if err != nil {
		return err
	}

	task, err := t.until(ctx, agentTimeout, "reachable", func(task *types.Task) bool {
		return hasAgent(container(task, MasterContainer))
	})
	if err != nil {
		return err
	}

	t.runtime = aws.ToString(container(task, MasterContainer).RuntimeId)
	return nil
}

// until polls the task until done returns true. It returns an error if the task
// stops or time is over.
func (t *LoadTask) until(
	ctx context.Context, timeout time.Duration, what string, done func(*types.Task) bool,
) (*types.Task, error) {
	status := ""
	for range timeout / taskPoll {
		task, err := t.describe(ctx)
		if err != nil {
			return nil, err
		}

		if done(task) {
			return task, nil
		}

		status = aws.ToString(task.LastStatus)
		if status == "STOPPED" || aws.ToString(task.DesiredStatus) == "STOPPED" {
			return nil, fmt.Errorf("task %s stopped: %s", t.ID, stopReason(task))
		}

		t.opts.Progress("task is " + strings.ToLower(status))
		if err := pause.For(ctx, min(taskPoll, t.s.opts.Poll)); err != nil {
			return nil, err
		}
	}

	return nil, fmt.Errorf("task %s is not %s after %v; its status is %s", t.ID, what, timeout, status)
}

func (t *LoadTask) describe(ctx context.Context) (*types.Task, error) {
	out, err := t.s.containers.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &t.Cluster, Tasks: []string{t.ID}})
	switch {
	case err != nil:
		return nil, err
	case len(out.Tasks) == 0:
		return nil, fmt.Errorf("task %s does not exist any more", t.ID)
	}
	return &out.Tasks[0], nil
}

// Stop stops the task. It works after ctx has ended, and has a timeout of its own.
func (t *LoadTask) Stop(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()

	_, err := t.s.containers.StopTask(ctx, &ecs.StopTaskInput{
		Cluster: &t.Cluster, Task: &t.ID, Reason: aws.String("stopped by zae-limiter"),
	})

	if _, gone := errors.AsType[*types.InvalidParameterException](err); gone {
		// ECS forgets a task some time after it has stopped.
		return nil
	}

	if err != nil {
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
		if aws.ToString(task.LastStatus) == "STOPPED" {
			return nil
		}

		if err := pause.For(ctx, min(taskPoll, t.s.opts.Poll)); err != nil {
			return err
		}
	}

	return fmt.Errorf("task %s has not stopped after %v", t.ID, stopTimeout)
}

// stopReason returns why a task stopped, of the task and of its containers.
func stopReason(task *types.Task) string {
	reason := cmp.Or(aws.ToString(task.StoppedReason), "ECS gave no reason")
	// A reason says more than an exit code, which a container that never ran
	// lacks.
	for _, c := range task.Containers {
		switch {
		case c.Reason != nil:
			reason += fmt.Sprintf("; %s: %s", aws.ToString(c.Name), *c.Reason)
		case c.ExitCode != nil:
			reason += fmt.Sprintf("; %s exited with %d", aws.ToString(c.Name), *c.ExitCode)
		}
	}
	return reason
}

func container(task *types.Task, name string) types.Container {
	for _, c := range task.Containers {
		if aws.ToString(c.Name) == name {
			return c
		}
	}
	return types.Container{}
}

// hasAgent reports whether the exec agent of a container runs.
func hasAgent(c types.Container) bool {
	return c.RuntimeId != nil && slices.ContainsFunc(c.ManagedAgents, func(a types.ManagedAgent) bool {
		return a.Name == types.ManagedAgentNameExecuteCommandAgent && aws.ToString(a.LastStatus) == "RUNNING"
	})
}

// environmentOf returns the variables with a value, sorted.
func environmentOf(all map[string]string) (pairs []types.KeyValuePair) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			pairs = append(pairs, types.KeyValuePair{Name: aws.String(name), Value: aws.String(all[name])})
		}
	}
	return pairs
}
