package infra

import (
	"context"
	"time"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// What is done with a stack, for errors.
const opCreate, opUpdate, opDelete = "created", "updated", "deleted"

// settle waits until an operation on a stack has ended, and returns how the
// stack is then, nil if it is gone. It takes no more from the account than
// looks: whoever stops waiting does no harm. *InterruptedError when ctx ends, or
// looking fails for long.
func (j *journal) settle(ctx context.Context, op string) (*cfn.Stack, error) {
	const maxFaults = 20 // in a row, each after its own retries
	for faults := 0; ; {
		stack, done, err := j.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, &InterruptedError{Stack: j.name, Op: op, Err: ctx.Err(), place: j.place}
		case err == nil && done:
			return stack, nil
		case err == nil:
			faults = 0
		case !isPassing(err) || faults == maxFaults:
			return nil, &InterruptedError{Stack: j.name, Op: op, Err: explain(err), place: j.place}
		default:
			faults++
		}
		if err := pause(ctx, j.opts.Poll); err != nil {
			return nil, &InterruptedError{Stack: j.name, Op: op, Err: err, place: j.place}
		}
	}
}

// look tells of new events and whether the operation has ended. Events come
// first: a stack is still at rest for a moment after it was told to change.
func (j *journal) look(ctx context.Context) (stack *cfn.Stack, done bool, err error) {
	if err := j.read(ctx); err != nil {
		return nil, false, err
	}
	if stack, err = j.describe(ctx, j.stack); err != nil {
		return nil, false, err
	}
	switch stateOf(stack) {
	case busy, leaving:
		j.begun = true
		return stack, false, nil
	case missing:
		if stack == nil {
			return nil, true, nil
		}
	}
	if !j.begun {
		return stack, false, nil
	}
	return stack, true, j.read(ctx)
}

// orInterrupted is the error of a call that begins an operation. When ctx has
// ended nobody knows whether it got through.
func (s *session) orInterrupted(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return &InterruptedError{Stack: s.name, Op: op, Err: ctx.Err(), place: s.place}
	}
	return err
}

// pause waits; its error is that of a context which ended before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await is settle for an operation that others have begun. How it ended is for
// the next look at the stack to say.
func (s *session) await(ctx context.Context, stack *cfn.Stack) error {
	op := opUpdate
	switch stack.StackStatus {
	case cfn.StackStatusCreateInProgress, cfn.StackStatusRollbackInProgress:
		op = opCreate
	case cfn.StackStatusDeleteInProgress:
		op = opDelete
	}
	_, err := (&journal{session: s, stack: *stack.StackId}).settle(ctx, op)
	return err
}

// detached is a context for tidying up after one that has ended.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
}
