package infra

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// state is what a stack's status means for whoever wants to change it.
type state int

const (
	missing  state = iota
	stable         // it can be changed
	busy           // something is being done with it
	leaving        // it is being deleted
	broken         // it can only be deleted
	stuck          // its rollback has to be finished first
	reviewed       // it is a change set that nobody has executed
)

func stateOf(stack *cfn.Stack) state {
	if stack == nil {
		return missing
	}
	switch status := stack.StackStatus; status {
	case cfn.StackStatusDeleteComplete:
		return missing
	case cfn.StackStatusDeleteInProgress:
		return leaving
	case cfn.StackStatusReviewInProgress:
		return reviewed
	case cfn.StackStatusRollbackComplete, cfn.StackStatusCreateFailed, cfn.StackStatusRollbackFailed, cfn.StackStatusDeleteFailed:
		return broken
	case cfn.StackStatusUpdateRollbackFailed, cfn.StackStatusImportRollbackFailed:
		return stuck
	default:
		if isBusyStatus(string(status)) {
			return busy
		}
		return stable
	}
}

func isBusyStatus(status string) bool { return strings.HasSuffix(status, "_IN_PROGRESS") }

// find is the session's stack, nil if there is none.
func (s *session) find(ctx context.Context) (*cfn.Stack, error) { return s.describe(ctx, s.name) }

// describe is the stack of that name or ID, nil if there is none.
func (s *session) describe(ctx context.Context, id string) (*cfn.Stack, error) {
	out, err := s.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(out.Stacks) == 0 {
		return nil, nil
	}
	return &out.Stacks[0], nil
}

// isMissing tells whether CloudFormation knows no stack, or no such resource in
// it. It has no code of its own for that.
func isMissing(err error) bool {
	return errorCode(err) == "ValidationError" && strings.Contains(errorText(err), "does not exist")
}

// tableResource is the stack's table in the template.
const tableResource = "RateLimitsTable"

// checkOwner refuses a stack that zae-limiter did not make.
func (s *session) checkOwner(ctx context.Context, stack *cfn.Stack) error {
	tags := tagsOf(*stack)
	if tags[tagManagedBy] == manager {
		if kind := tags[tagType]; kind != "" && kind != typeLimiter {
			return s.refuse(stack, fmt.Sprintf("it is one of zae-limiter, but of type %s; choose another name", kind))
		}
		return nil
	}
	_, err := s.stacks.DescribeStackResource(ctx, &cloudformation.DescribeStackResourceInput{
		StackName: stack.StackId, LogicalResourceId: aws.String(tableResource),
	})
	if isMissing(err) {
		return s.refuse(stack, "it belongs to something else than zae-limiter; choose another name")
	}
	return err
}

func (s *session) refuse(stack *cfn.Stack, reason string) error {
	return &RefusedError{Stack: s.name, Status: string(stack.StackStatus), Reason: reason}
}

// refuseState says why a stack cannot be changed as it is.
func (s *session) refuseState(stack *cfn.Stack) error {
	remove := s.place.Command("delete", "--name", s.name)
	switch stateOf(stack) {
	case broken:
		return s.refuse(stack, "it was not made, or not deleted, to the end, and cannot be changed; delete it first with "+remove+", and deploy it again")
	case stuck:
		return s.refuse(stack, "an update failed, and so did its rollback; finish that with "+
			s.place.AWS("cloudformation", "continue-update-rollback", "--stack-name", s.name)+", and try again")
	case reviewed:
		return s.refuse(stack, "it has a change set that nobody has executed, and nothing else; execute that, or delete the stack with "+remove+", and try again")
	}
	return s.contended()
}
