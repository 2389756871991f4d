package infra

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// Change is a change of a resource by an update.
type Change struct {
	Action      string   `json:"action"`      // Add, Modify, Remove, Import or Dynamic
	Resource    string   `json:"resource"`    // name in the template
	Physical    string   `json:"physical_id"` // name in the account; "" if it is new
	Type        string   `json:"type"`        // such as AWS::DynamoDB::Table
	Replacement string   `json:"replacement"` // True, False or Conditional for a Modify, else ""
	Scope       []string `json:"scope"`       // what is modified: Properties, Tags, ...
}

// startUpdate starts an update of a stack by a change set, after Options.Confirm has
// accepted it and if it keeps the table. It returns the watcher of the update, or
// nil if nothing would change.
func (s *session) startUpdate(
	ctx context.Context, stack *cfn.Stack, in cloudformation.CreateChangeSetInput,
) (w *watcher, err error) {
	in.StackName, in.ChangeSetType = stack.StackName, cfn.ChangeSetTypeUpdate
	in.ChangeSetName = aws.String("zae-limiter-" + strings.ToLower(rand.Text()))
	in.Capabilities = []cfn.Capability{cfn.CapabilityCapabilityNamedIam}
	// With a token, a retry by the SDK creates no second change set.
	in.ClientToken = in.ChangeSetName

	out, err := s.stacks.CreateChangeSet(ctx, &in)
	if err != nil {
		if isNoUpdate(errorText(err)) {
			return nil, nil
		}
		return nil, err
	}

	// A change set that is not executed would stay in the account. On every
	// such path w is nil.
	defer func() {
		if w == nil {
			s.deleteChangeSet(ctx, out.Id)
		}
	}()

	changes, err := s.preview(ctx, out.Id)
	if err != nil || changes == nil {
		return nil, err
	}

	if err := s.checkTableKept(stack, changes); err != nil {
		return nil, err
	}

	// There are no changes of resources if only outputs or tags change.
	if len(changes) > 0 {
		if err := s.opts.Confirm(changes); err != nil {
			return nil, &confirmError{err}
		}
	}

	// The watcher has to see the events before the start, so that it skips
	// those of earlier operations.
	started, err := s.newWatcher(ctx, *stack.StackId)
	if err != nil {
		return nil, err
	}

	_, err = s.stacks.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{
		ChangeSetName: out.Id, ClientRequestToken: in.ChangeSetName,
	})
	if err != nil {
		return nil, s.startError(ctx, opUpdate, err)
	}

	return started, nil
}

// confirmError wraps the error of Options.Confirm, so that translateError returns it
// unchanged.
type confirmError struct{ error }

// Unwrap returns the error of Confirm.
func (e *confirmError) Unwrap() error { return e.error }

// preview waits for a change set and returns its changes, or nil if it has none.
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
		// CloudFormation reports an update without changes as a change set that
		// failed.
		default:
			if reason := aws.ToString(out.StatusReason); !isNoUpdate(reason) {
				return nil, &RefusedError{Stack: s.name, Reason: "CloudFormation refuses the update: " + reason}
			}
			return nil, nil
		}

		if err := pause.For(ctx, s.opts.Poll); err != nil {
			return nil, err
		}
	}
}

// isNoUpdate reports whether CloudFormation rejected an update because nothing
// would change. It has two texts for that.
func isNoUpdate(reason string) bool {
	return strings.Contains(reason, "didn't contain changes") || strings.Contains(reason,
		"No updates are to be performed")
}

// changes returns all changes of a change set, given its first page.
func (s *session) changes(ctx context.Context, first *cloudformation.DescribeChangeSetOutput) ([]Change, error) {
	list, found := []Change{}, []*cfn.ResourceChange{}
	for page := first; ; {
		for _, c := range page.Changes {
			if c.ResourceChange != nil {
				list, found = append(list, newChange(c.ResourceChange)), append(found, c.ResourceChange)
			}
		}

		if page.NextToken == nil {
			resolveConditional(list, found)
			return list, nil
		}

		var err error
		page, err = s.stacks.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{
			ChangeSetName: first.ChangeSetId, NextToken: page.NextToken,
		})
		if err != nil {
			return nil, err
		}
	}
}

// resolveConditional sets conditional replacements to false if their only causes are
// attributes, such as the ARN of a stream, of resources that are not replaced.
func resolveConditional(list []Change, found []*cfn.ResourceChange) {
	// A resource that is kept may clear those that depend on it, so the passes
	// repeat until one of them clears nothing.
	kept := map[string]bool{}
	for cleared := true; cleared; {
		cleared = false
		for i, c := range list {
			if c.Replacement == string(cfn.ReplacementConditional) && dependsOnlyOn(found[i], kept) {
				list[i].Replacement = string(cfn.ReplacementFalse)
			}
			if list[i].Replacement == string(cfn.ReplacementFalse) && !kept[c.Resource] {
				kept[c.Resource], cleared = true, true
			}
		}
	}
}

// dependsOnlyOn reports whether only attributes of the kept resources could replace
// c.
func dependsOnlyOn(c *cfn.ResourceChange, kept map[string]bool) bool {
	causes := 0
	for _, d := range c.Details {
		if d.Target == nil || d.Target.RequiresRecreation == cfn.RequiresRecreationNever {
			continue
		}

		resource, _, _ := strings.Cut(aws.ToString(d.CausingEntity), ".")
		// Only the attributes of a kept resource are known to stay as they are.
		// Any other cause may replace c.
		if d.Evaluation != cfn.EvaluationTypeDynamic || d.ChangeSource != cfn.ChangeSourceResourceAttribute ||
			!kept[resource] {
			return false
		}
		causes++
	}

	// Without a known cause, the replacement stays possible.
	return causes > 0
}

// newChange converts a change of the SDK.
func newChange(c *cfn.ResourceChange) Change {
	change := Change{
		Action: string(c.Action), Resource: aws.ToString(c.LogicalResourceId),
		Physical: aws.ToString(c.PhysicalResourceId),
		Type:     aws.ToString(c.ResourceType), Replacement: string(c.Replacement), Scope: []string{},
	}
	for _, scope := range c.Scope {
		change.Scope = append(change.Scope, string(scope))
	}
	return change
}

// checkTableKept refuses changes that would replace or remove the table. It accepts
// a conditional replacement: a new index is one, and CloudFormation cannot replace a
// table that has a custom name.
func (s *session) checkTableKept(stack *cfn.Stack, changes []Change) error {
	for _, c := range changes {
		if c.Resource != tableResource {
			continue
		}

		if c.Action == string(cfn.ChangeActionRemove) || c.Replacement == string(cfn.ReplacementTrue) {
			return s.refuse(stack,
				"the update would replace or remove the table and all data in it; nothing was changed")
		}
	}
	return nil
}

// deleteChangeSet deletes a change set that was not executed. It ignores errors: a
// remaining change set is harmless.
func (s *session) deleteChangeSet(ctx context.Context, id *string) {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	_, _ = s.stacks.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{ChangeSetName: id})
}
