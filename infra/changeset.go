package infra

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Change is what an update would do to one resource of a stack.
type Change struct {
	Action      string   `json:"action"`      // Add, Modify, Remove, Import or Dynamic
	Resource    string   `json:"resource"`    // its name in the template
	Physical    string   `json:"physical_id"` // its name in the account; "" if it is new
	Type        string   `json:"type"`        // such as AWS::DynamoDB::Table
	Replacement string   `json:"replacement"` // True, False or Conditional for a Modify, else ""
	Scope       []string `json:"scope"`       // what is modified: Properties, Tags, ...
}

// update changes a stack by a change set, after it was shown and found harmless.
// The journal is that of what was begun, and nil, without an error, where nothing
// would change.
func (s *session) update(ctx context.Context, stack *cfn.Stack, in cloudformation.CreateChangeSetInput) (j *journal, err error) {
	in.StackName, in.ChangeSetType = stack.StackName, cfn.ChangeSetTypeUpdate
	in.ChangeSetName = aws.String("zae-limiter-" + strings.ToLower(rand.Text()))
	in.Capabilities = []cfn.Capability{cfn.CapabilityCapabilityNamedIam}
	in.ClientToken = in.ChangeSetName
	out, err := s.stacks.CreateChangeSet(ctx, &in)
	if err != nil {
		if isNoUpdate(errorText(err)) {
			return nil, nil
		}
		return nil, err
	}
	defer func() {
		if j == nil {
			s.discard(ctx, out.Id)
		}
	}()
	changes, err := s.preview(ctx, out.Id)
	if err != nil || changes == nil {
		return nil, err
	}
	if err := s.spareTable(stack, changes); err != nil {
		return nil, err
	}
	if len(changes) > 0 { // none where only the stack itself changes, such as its outputs
		if err := s.opts.Confirm(changes); err != nil {
			return nil, &confirmError{err}
		}
	}
	begun, err := s.journalFrom(ctx, *stack.StackId)
	if err != nil {
		return nil, err
	}
	_, err = s.stacks.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{ChangeSetName: out.Id, ClientRequestToken: in.ChangeSetName})
	if err != nil {
		return nil, s.orInterrupted(ctx, opUpdate, err)
	}
	return begun, nil
}

// confirmError is what Options.Confirm returned, on its way to the caller.
type confirmError struct{ error }

// Unwrap is what Confirm returned.
func (e *confirmError) Unwrap() error { return e.error }

// preview waits for a change set and returns its changes, nil if it has none.
func (s *session) preview(ctx context.Context, id *string) ([]Change, error) {
	for {
		out, err := s.stacks.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{ChangeSetName: id})
		if err != nil {
			return nil, err
		}
		switch out.Status {
		case cfn.ChangeSetStatusCreateComplete:
			return s.changes(ctx, out)
		case cfn.ChangeSetStatusCreatePending, cfn.ChangeSetStatusCreateInProgress:
		default:
			if reason := aws.ToString(out.StatusReason); !isNoUpdate(reason) {
				return nil, &RefusedError{Stack: s.name, Reason: "CloudFormation refuses the update: " + reason}
			}
			return nil, nil
		}
		if err := pause(ctx, s.opts.Poll); err != nil {
			return nil, err
		}
	}
}

// isNoUpdate knows both ways in which CloudFormation says that all is as wanted.
func isNoUpdate(reason string) bool {
	return strings.Contains(reason, "didn't contain changes") || strings.Contains(reason, "No updates are to be performed")
}

// changes are all of a change set, of which first is the first page.
func (s *session) changes(ctx context.Context, first *cloudformation.DescribeChangeSetOutput) ([]Change, error) {
	list, found := []Change{}, []*cfn.ResourceChange{}
	for page := first; ; {
		for _, c := range page.Changes {
			if c.ResourceChange != nil {
				list, found = append(list, changeOf(c.ResourceChange)), append(found, c.ResourceChange)
			}
		}
		if page.NextToken == nil {
			clearDoubts(list, found)
			return list, nil
		}
		var err error
		page, err = s.stacks.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{ChangeSetName: first.ChangeSetId, NextToken: page.NextToken})
		if err != nil {
			return nil, err
		}
	}
}

// clearDoubts makes a replacement that is conditional none where all that could
// cause it is an attribute, such as the ARN of a stream, of something that is not
// replaced itself, and so keeps it.
func clearDoubts(list []Change, found []*cfn.ResourceChange) {
	stays := map[string]bool{}
	for cleared := true; cleared; {
		cleared = false
		for i, c := range list {
			if c.Replacement == string(cfn.ReplacementConditional) && stayFor(found[i], stays) {
				list[i].Replacement = string(cfn.ReplacementFalse)
			}
			if list[i].Replacement == string(cfn.ReplacementFalse) && !stays[c.Resource] {
				stays[c.Resource], cleared = true, true
			}
		}
	}
}

// stayFor tells whether nothing but attributes of what stays could replace c.
func stayFor(c *cfn.ResourceChange, stays map[string]bool) bool {
	causes := 0
	for _, d := range c.Details {
		if d.Target == nil || d.Target.RequiresRecreation == cfn.RequiresRecreationNever {
			continue
		}
		resource, _, _ := strings.Cut(aws.ToString(d.CausingEntity), ".")
		if d.Evaluation != cfn.EvaluationTypeDynamic || d.ChangeSource != cfn.ChangeSourceResourceAttribute || !stays[resource] {
			return false
		}
		causes++
	}
	return causes > 0
}

func changeOf(c *cfn.ResourceChange) Change {
	change := Change{
		Action: string(c.Action), Resource: aws.ToString(c.LogicalResourceId), Physical: aws.ToString(c.PhysicalResourceId),
		Type: aws.ToString(c.ResourceType), Replacement: string(c.Replacement), Scope: []string{},
	}
	for _, scope := range c.Scope {
		change.Scope = append(change.Scope, string(scope))
	}
	return change
}

// spareTable refuses changes that would lose the table. One that CloudFormation
// calls conditional is let through: it is how a new index looks, and a table
// with a name of its own cannot be replaced without the stack noticing.
func (s *session) spareTable(stack *cfn.Stack, changes []Change) error {
	for _, c := range changes {
		if c.Resource != tableResource {
			continue
		}
		if c.Action == string(cfn.ChangeActionRemove) || c.Replacement == string(cfn.ReplacementTrue) {
			return s.refuse(stack, "the update would replace or remove the table, and all that is stored in it; nothing was changed")
		}
	}
	return nil
}

// discard deletes a change set that is not executed. One that is, or that
// remains because this fails, does no harm.
func (s *session) discard(ctx context.Context, id *string) {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, _ = s.stacks.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{ChangeSetName: id})
}
