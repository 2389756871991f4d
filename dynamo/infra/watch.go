package infra

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Event is an event of a stack or of one of its resources.
type Event struct {
	Time time.Time `json:"time"`
	// Resource is the name in the template or, for the stack itself, its name.
	Resource string `json:"resource"`
	Type     string `json:"type"`   // such as AWS::DynamoDB::Table
	Status   string `json:"status"` // such as CREATE_COMPLETE
	Reason   string `json:"reason,omitempty"`
}

// Operations on a stack, as errors name them.
const opCreate, opUpdate, opDelete = "created", "updated", "deleted"

// watcher follows one operation on a stack.
type watcher struct {
	*session
	stack    string  // its ID
	last     string  // ID of the newest event that was read
	begun    bool    // the operation has events
	failures []Event // root failures, oldest first
}

// newWatcher returns a watcher for an operation that starts after this call.
func (s *session) newWatcher(ctx context.Context, stack string) (*watcher, error) {
	w := &watcher{session: s, stack: stack}
	out, err := s.stacks.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		return nil, err
	}
	if len(out.StackEvents) > 0 {
		w.last = aws.ToString(out.StackEvents[0].EventId)
	}
	return w, nil
}

// wait waits for the end of the operation and returns the stack, or nil if it is
// deleted. It only reads, so it is safe to cancel. It returns an
// *InterruptedError if ctx ends or polling fails repeatedly.
func (w *watcher) wait(ctx context.Context, op string) (*cfn.Stack, error) {
	// Each fault comes after the retries of its own call, so a wait outlives an
	// outage of minutes.
	const maxFaults = 20

	for faults := 0; ; {
		stack, done, err := w.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, w.interrupted(op, ctx.Err())
		case err == nil && done:
			return stack, nil
		case err == nil:
			faults = 0
		case !isTransient(err) || faults == maxFaults:
			return nil, w.interrupted(op, explain(err))
		default:
			faults++
		}

		if err := pause.For(ctx, w.opts.Poll); err != nil {
			return nil, w.interrupted(op, err)
		}
	}
}

// poll reads new events and reports whether the operation has ended. It reads
// events first: after the operation has started, CloudFormation may still return
// the old status of the stack.
func (w *watcher) poll(ctx context.Context) (stack *cfn.Stack, done bool, err error) {
	if err := w.readEvents(ctx); err != nil {
		return nil, false, err
	}

	if stack, err = w.describe(ctx, w.stack); err != nil {
		return nil, false, err
	}

	switch stateOf(stack) {
	case busy, deleting:
		// The old status would not show an operation, so one has begun.
		w.begun = true
		return stack, false, nil
	// CloudFormation may still describe a deleted stack, which then has last
	// events to read.
	case missing:
		if stack == nil {
			return nil, true, nil
		}
	}

	// Without a sign of the operation, a stable status may be the one before
	// it.
	if !w.begun {
		return stack, false, nil
	}

	// The last events may have come after those that were read above.
	return stack, true, w.readEvents(ctx)
}

// readEvents passes the new events to Options.Event. A deleted stack has none.
func (w *watcher) readEvents(ctx context.Context) error {
	events, err := w.newEvents(ctx)
	if isMissing(err) {
		return nil
	}

	if err != nil || len(events) == 0 {
		return err
	}

	w.last, w.begun = aws.ToString(events[0].EventId), true

	for _, e := range slices.Backward(events) {
		event := Event{
			Time: aws.ToTime(e.Timestamp), Resource: aws.ToString(e.LogicalResourceId),
			Type:   aws.ToString(e.ResourceType),
			Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
		}

		if isRootFailure(event) {
			w.failures = append(w.failures, event)
		}

		w.opts.Event(event)
	}
	return nil
}

// newEvents returns the events after the last one that was read, newest first. On
// the first call it returns those of the current operation.
func (w *watcher) newEvents(ctx context.Context) ([]cfn.StackEvent, error) {
	var events []cfn.StackEvent

	pages := cloudformation.NewDescribeStackEventsPaginator(w.stacks,
		&cloudformation.DescribeStackEventsInput{StackName: &w.stack})

	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range page.StackEvents {
			if w.last != "" && aws.ToString(e.EventId) == w.last {
				return events, nil
			}
			events = append(events, e)

			if w.last == "" && startsOperation(e) {
				return events, nil
			}
		}
	}
	return events, nil
}

// startsOperation reports whether e starts an operation on the stack.
func startsOperation(e cfn.StackEvent) bool {
	if aws.ToString(e.PhysicalResourceId) != aws.ToString(e.StackId) {
		return false
	}
	switch e.ResourceStatus {
	case cfn.ResourceStatusCreateInProgress, cfn.ResourceStatusUpdateInProgress, cfn.ResourceStatusDeleteInProgress,
		cfn.ResourceStatusImportInProgress:
		return true
	}
	return false
}

// isRootFailure reports whether an event is a failure that no other failure
// caused.
func isRootFailure(e Event) bool {
	return strings.HasSuffix(e.Status, "_FAILED") && !strings.Contains(strings.ToLower(e.Reason), "cancelled")
}

// failedError returns the error for an operation that ended with this status.
func (w *watcher) failedError(op, status string) error {
	const maxEvents = 5
	return &FailedError{Stack: w.name, Op: op, Status: status, Events: w.failures[:min(maxEvents, len(w.failures))]}
}

// waitForOthers waits for an operation that another caller started. It does not
// report how that operation ended.
func (s *session) waitForOthers(ctx context.Context, stack *cfn.Stack) error {
	op := opUpdate
	switch stack.StackStatus {
	case cfn.StackStatusCreateInProgress, cfn.StackStatusRollbackInProgress:
		op = opCreate
	case cfn.StackStatusDeleteInProgress:
		op = opDelete
	}
	_, err := (&watcher{session: s, stack: *stack.StackId}).wait(ctx, op)
	return err
}

// startError returns the error of a call that starts an operation. If ctx has
// ended, the operation may have started.
func (s *session) startError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return s.interrupted(op, ctx.Err())
	}
	return err
}

// interrupted returns the error for an operation that goes on without this call.
func (s *session) interrupted(op string, err error) error {
	wait := s.ofKind(remedy.Wait, remedy.WaitLoad)
	return remedy.With(&InterruptedError{Stack: s.name, Op: op, Err: err, remedy: wait}, wait)
}

// cleanupContext returns a context for cleaning up after ctx has ended.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
}
