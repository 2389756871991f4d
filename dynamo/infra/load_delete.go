package infra

import (
	"context"
	"time"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// LoadDeleteOptions configures [DeleteLoad]. The zero value of a field is its
// default.
type LoadDeleteOptions struct {
	// Options configures the call. NoWait has no effect.
	Options Options
	// Confirm, if not nil, is called before anything is stopped or deleted. If it
	// returns an error, DeleteLoad returns that error and deletes nothing.
	Confirm func(LoadRemoval) error
	// Step is like the field of [LoadOptions].
	Step func(text string) (done func(error))
}

// LoadRemoval describes what DeleteLoad is about to do, or has done.
type LoadRemoval struct {
	Name      string `json:"name" doc:"name of the load stack"`
	Target    string `json:"target" doc:"name of the stack that it tests, which stays"`
	Region    string `json:"region" doc:"AWS region"`
	Existed   bool   `json:"existed" doc:"whether the load stack existed"`
	Tasks     int    `json:"tasks" doc:"running tasks that were stopped"`
	Artifacts string `json:"artifacts" doc:"deleted bucket of the function's code"`
}

// DeleteLoad stops all tasks of a load stack, and deletes it with its images, logs
// and code. It succeeds if there is no load stack. The tested stack stays.
//
// It returns the errors of Delete.
func DeleteLoad(ctx context.Context, name string, opts *LoadDeleteOptions) (LoadRemoval, error) {
	const op = "delete"
	if opts == nil {
		opts = &LoadDeleteOptions{}
	}

	l, err := newLoad(ctx, op, name, &LoadOptions{Options: opts.Options, Step: opts.Step})
	if err != nil {
		return LoadRemoval{}, err
	}

	r := LoadRemoval{Name: l.name, Target: l.target, Region: l.region}
	err = l.delete(ctx, opts.Confirm, &r)
	return r, translateError(ctx, op, err)
}

// delete deletes the stack and the bucket of its code.
func (l *load) delete(ctx context.Context, confirm func(LoadRemoval) error, r *LoadRemoval) error {
	var codeBucket, id string
	for range maxRounds {
		stack, err := l.find(ctx)
		if err != nil {
			return err
		}

		state := stateOf(stack)
		// Another caller has deployed again.
		if state != missing && id != "" && *stack.StackId != id {
			return nil
		}

		if state == missing {
			r.Artifacts, err = l.removeOwnBucket(ctx, codeBucket)
			return err
		}

		// Only the stack has the name of the bucket. The round that finds the
		// stack deleted needs the name.
		r.Existed, id = true, *stack.StackId
		codeBucket, _ = parameterOf(*stack, paramCodeBucket)

		if err := l.checkOwner(ctx, stack); err != nil {
			return err
		}

		if state == busy || state == deleting {
			err = l.waitForOthers(ctx, stack)
		} else {
			err = l.remove(ctx, stack, confirm, r)
		}

		if err != nil && !isRace(err) {
			return err
		}
	}

	return l.contended()
}

// remove stops all tasks and deletes the stack. A cluster with tasks cannot be
// deleted.
func (l *load) remove(ctx context.Context, stack *cfn.Stack, confirm func(LoadRemoval) error, r *LoadRemoval) error {
	if err := l.checkTermination(stack); err != nil {
		return err
	}

	running, err := l.listTasks(ctx, taskRunning)
	if err != nil {
		return err
	}

	// A later round finds fewer tasks, since the first one has stopped them.
	r.Tasks = max(r.Tasks, len(running))

	if confirm != nil {
		if err := confirm(*r); err != nil {
			return &confirmError{err}
		}
	}

	if err := l.stopTasks(ctx); err != nil {
		return err
	}

	return l.deleteStack(ctx, stack, nil)
}

// stopTasks scales the service to zero, stops all tasks of the cluster, however they
// were started, and waits for their end.
func (l *load) stopTasks(ctx context.Context) (err error) {
	// Otherwise the service would replace each task that stops. An error is no
	// obstacle, since the service may be gone already.
	_ = l.containers.call(ctx, "UpdateService", map[string]any{
		"cluster": l.name, "service": l.name + masterSuffix, "desiredCount": 0,
	}, nil)

	var done func(error)
	defer func() {
		if done != nil {
			done(err)
		}
	}()

	for {
		left, err := l.stopRunning(ctx)
		if err != nil || left == 0 {
			return err
		}

		if done == nil {
			done = l.opts.Step("stopping the tasks")
		}

		if err := pause.For(ctx, min(l.session.opts.Poll, time.Second)); err != nil {
			return err
		}
	}
}

// stopRunning stops the running tasks, and returns how many have not ended yet.
func (l *load) stopRunning(ctx context.Context) (left int, err error) {
	running, err := l.listTasks(ctx, taskRunning)
	if err != nil {
		return 0, err
	}

	for _, task := range running {
		err := l.containers.stopTask(ctx, l.name, task, "zae-limiter loadtest delete")
		if err != nil {
			return 0, err
		}
	}

	// A task counts as stopped as soon as it is asked to, so only its last
	// status shows whether it has ended.
	stopping, err := l.listTasks(ctx, taskStopped)
	if err != nil {
		return 0, err
	}

	// DescribeTasks accepts no more.
	const maxTasks = 100
	for len(stopping) > 0 {
		n := min(maxTasks, len(stopping))
		tasks, err := l.containers.describeTasks(ctx, l.name, stopping[:n]...)
		if err != nil {
			return 0, err
		}
		for _, task := range tasks {
			if task.LastStatus != taskStopped {
				left++
			}
		}

		stopping = stopping[n:]
	}
	return left, nil
}

// listTasks returns the ARNs of the tasks of the cluster, or nil if it is gone.
func (l *load) listTasks(ctx context.Context, desired string) (all []string, err error) {
	for in := (taskFilter{Cluster: l.name, DesiredStatus: desired}); ; {
		page, next, err := l.containers.listTasks(ctx, in)
		if isMissingCluster(err) {
			return nil, nil
		}

		if err != nil {
			return nil, err
		}

		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		in.NextToken = next
	}
}
