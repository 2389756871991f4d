package infra

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Event is something that happened to a stack, or to a resource of it.
type Event struct {
	Time     time.Time `json:"time"`
	Resource string    `json:"resource"` // its name in the template; that of the stack for itself
	Type     string    `json:"type"`     // such as AWS::DynamoDB::Table
	Status   string    `json:"status"`   // such as CREATE_COMPLETE
	Reason   string    `json:"reason,omitempty"`
}

// journal reads the events of one operation on a stack.
type journal struct {
	*session
	stack    string  // its ID
	last     string  // ID of the newest event that was read
	begun    bool    // there are events of the operation
	failures []Event // those that are causes, oldest first
}

// journalFrom is for an operation that begins after now.
func (s *session) journalFrom(ctx context.Context, stack string) (*journal, error) {
	j := &journal{session: s, stack: stack}
	out, err := s.stacks.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		return nil, err
	}
	if len(out.StackEvents) > 0 {
		j.last = aws.ToString(out.StackEvents[0].EventId)
	}
	return j, nil
}

// read tells of the events since it was last called. A stack that is gone has
// none.
func (j *journal) read(ctx context.Context) error {
	fresh, err := j.fresh(ctx)
	if isMissing(err) {
		return nil
	}
	if err != nil || len(fresh) == 0 {
		return err
	}
	j.last, j.begun = aws.ToString(fresh[0].EventId), true
	for _, e := range slices.Backward(fresh) {
		event := Event{
			Time: aws.ToTime(e.Timestamp), Resource: aws.ToString(e.LogicalResourceId), Type: aws.ToString(e.ResourceType),
			Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
		}
		if isCause(event) {
			j.failures = append(j.failures, event)
		}
		j.opts.Event(event)
	}
	return nil
}

// fresh are the events that were not read yet, newest first. Where none was,
// they are those since the operation that is under way began.
func (j *journal) fresh(ctx context.Context) ([]cfn.StackEvent, error) {
	var fresh []cfn.StackEvent
	pages := cloudformation.NewDescribeStackEventsPaginator(j.stacks, &cloudformation.DescribeStackEventsInput{StackName: &j.stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range page.StackEvents {
			if j.last != "" && aws.ToString(e.EventId) == j.last {
				return fresh, nil
			}
			fresh = append(fresh, e)
			if j.last == "" && begins(e) {
				return fresh, nil
			}
		}
	}
	return fresh, nil
}

// begins tells whether an operation on the whole stack begins with this event.
func begins(e cfn.StackEvent) bool {
	if aws.ToString(e.PhysicalResourceId) != aws.ToString(e.StackId) {
		return false
	}
	switch e.ResourceStatus {
	case cfn.ResourceStatusCreateInProgress, cfn.ResourceStatusUpdateInProgress, cfn.ResourceStatusDeleteInProgress, cfn.ResourceStatusImportInProgress:
		return true
	}
	return false
}

// isCause tells whether an event is a failure that is not the consequence of
// another.
func isCause(e Event) bool {
	return strings.HasSuffix(e.Status, "_FAILED") && !strings.Contains(strings.ToLower(e.Reason), "cancelled")
}

// failed is the error for an operation that ended in this state.
func (j *journal) failed(op, status string) error {
	const most = 5
	return &FailedError{Stack: j.name, Op: op, Status: status, Events: j.failures[:min(most, len(j.failures))]}
}
