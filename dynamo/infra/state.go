package infra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// state is the status of a stack, as far as a change of it depends on that.
type state int

const (
	missing    state = iota
	stable           // it can be updated
	busy             // an operation is in progress
	deleting         // it is being deleted
	broken           // it can only be deleted
	stuck            // its rollback failed, and has to be continued
	unexecuted       // it has nothing but a change set
)

func stateOf(stack *cfn.Stack) state {
	if stack == nil {
		return missing
	}
	switch status := stack.StackStatus; status {
	case cfn.StackStatusDeleteComplete:
		return missing
	case cfn.StackStatusDeleteInProgress:
		return deleting
	case cfn.StackStatusReviewInProgress:
		return unexecuted
	case cfn.StackStatusRollbackComplete, cfn.StackStatusCreateFailed, cfn.StackStatusRollbackFailed,
		cfn.StackStatusDeleteFailed:
		return broken
	case cfn.StackStatusUpdateRollbackFailed, cfn.StackStatusImportRollbackFailed:
		return stuck
	default:
		// AWS may add statuses, so the suffix decides about all others.
		if isBusyStatus(string(status)) {
			return busy
		}
		return stable
	}
}

func isBusyStatus(status string) bool { return strings.HasSuffix(status, "_IN_PROGRESS") }

// find returns the session's stack, or nil if there is none.
func (s *session) find(ctx context.Context) (*cfn.Stack, error) { return s.describe(ctx, s.name) }

// describe returns the stack of that name or ID, or nil if there is none.
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

// isMissing reports whether a stack or resource does not exist. CloudFormation has
// no error code of its own for that.
func isMissing(err error) bool {
	return errorCode(err) == "ValidationError" && strings.Contains(errorText(err), "does not exist")
}

// tableResource is the logical ID of the table.
const tableResource = "RateLimitsTable"

// checkOwner refuses a stack that zae-limiter did not create.
func (s *session) checkOwner(ctx context.Context, stack *cfn.Stack) error {
	if s.kind == typeLoad {
		return s.checkLoadOwner(stack)
	}

	tags := tagsOf(*stack)
	if tags[tagManagedBy] == manager {
		if kind := tags[tagType]; kind != "" && kind != typeLimiter {
			return s.refuse(stack,
				fmt.Sprintf("it belongs to zae-limiter, but its type is %s; choose another name", kind))
		}
		return nil
	}

	// A stack of an old version has no tags, but its table has the logical ID
	// that all versions use.
	_, err := s.stacks.DescribeStackResource(ctx, &cloudformation.DescribeStackResourceInput{
		StackName: stack.StackId, LogicalResourceId: aws.String(tableResource),
	})
	if isMissing(err) {
		return s.refuse(stack, "it does not belong to zae-limiter; choose another name")
	}
	return err
}

// refuse returns the error for a stack that is left as it is. The reason names the
// remedies.
func (s *session) refuse(stack *cfn.Stack, reason string, remedies ...*dynamo.Remedy) error {
	return remedy.With(&RefusedError{Stack: s.name, Status: string(stack.StackStatus), Reason: reason}, remedies...)
}

// refuseState returns the error for a stack in a state that cannot be updated.
func (s *session) refuseState(stack *cfn.Stack) error {
	remove := s.ofKind(remedy.Delete, remedy.DeleteLoad)
	switch stateOf(stack) {
	case broken:
		return s.refuse(stack,
			"its creation or deletion failed, so it cannot be updated; delete it with "+remove.Error()+
				", and deploy it again", remove)
	case stuck:
		finish := s.remedy(remedy.ContinueRollback, s.name)
		return s.refuse(stack, "an update and its rollback failed; finish the rollback with "+finish.Error()+
			", and try again", finish)
	case unexecuted:
		return s.refuse(stack,
			"it has only a change set that was not executed; execute that, or delete the stack with "+remove.Error()+
				", and try again", remove)
	}
	return s.contended()
}

// resolveStack sets Options.Stack to the stack to deploy, given the deployed one,
// or nil.
func (s *session) resolveStack(ctx context.Context, stack *cfn.Stack) error {
	err := s.callResolve(ctx, stack)
	s.opts.Stack.Architecture = s.architecture(stack)
	if err != nil {
		return err
	}
	return s.keepResourceIndex(stack)
}

// keepResourceIndex sets the kind of the index by resource to the deployed one, and
// refuses another kind: CloudFormation would delete the index to create it anew.
func (s *session) keepResourceIndex(stack *cfn.Stack) error {
	if stack == nil {
		return nil
	}
	wanted, deployed := s.opts.Stack.ResourceIndex, stackOf(stack).ResourceIndex
	s.opts.Stack.ResourceIndex = deployed

	if wanted == "" || wanted == deployed {
		return nil
	}

	if wanted == LeanIndex {
		return s.refuse(stack,
			"its index by resource holds whole items and would have to be created anew to hold keys only; "+
				"deploy it without --lean-index, or deploy another stack")
	}

	return s.refuse(stack,
		"its index by resource holds keys only and would have to be created anew to hold whole items; deploy "+
			"it without --no-lean-index, or deploy another stack")
}

// architecture returns the architecture for the functions: the one in
// Options.Stack, else the deployed one, else the default.
func (s *session) architecture(stack *cfn.Stack) string {
	if chosen := cmp.Or(s.opts.Stack.Architecture, deployedArchitecture(stack)); chosen != "" {
		return chosen
	}
	return DefaultArchitecture(s.opts.Zip)
}

// deployedArchitecture returns the architecture of the functions of a stack, or ""
// if it has none.
func deployedArchitecture(stack *cfn.Stack) string {
	if stack == nil || !stackOf(stack).hasFunctions() {
		return ""
	}
	return stackOf(stack).Architecture
}

// callResolve sets Options.Stack to the result of Options.Resolve.
func (s *session) callResolve(ctx context.Context, stack *cfn.Stack) error {
	if s.opts.Resolve == nil {
		return nil
	}

	if stack == nil {
		s.opts.Stack = s.opts.Resolve(nil)
		return s.validate()
	}

	deployed := stackOf(stack)
	deployed.Architecture = deployedArchitecture(stack)
	// The parameter names a bucket also where it is the stack's own. The
	// setting is empty then.
	deployed.ArtifactBucket, _ = s.codeTarget(ctx, stack)
	s.opts.Stack = s.opts.Resolve(&deployed)

	err := s.validate()
	// The caller may never have seen the value that is refused, since it comes
	// from the deployed stack.
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return invalid(bad.Field, bad.Value,
			bad.Reason+"; settings without a flag keep their deployed value, unless --reset is given")
	}
	return err
}

// validate checks Options.Stack without any call.
func (s *session) validate() error {
	return cmp.Or(s.opts.Stack.Validate(s.name), checkTopicRegion(s.opts.Stack.AlarmTopicARN, s.region))
}

// stackOf returns the settings of a deployed stack. It is the inverse of
// Stack.parameters.
func stackOf(stack *cfn.Stack) Stack {
	s := stackFromParameters(func(key string) string { value, _ := parameterOf(*stack, key); return value })
	s.Tags = tagsOf(*stack)
	maps.DeleteFunc(s.Tags, func(key, _ string) bool { return isManagedTag(key) })
	return s
}

// stackFromParameters returns the settings in the parameters of a stack. A setting
// that its template lacks has its default.
func stackFromParameters(text func(key string) string) Stack {
	number := func(key string) int { n, _ := strconv.Atoi(text(key)); return n }
	s := Stack{
		SnapshotWindows:    strings.ReplaceAll(text("SnapshotWindows"), " ", ""),
		UsageRetentionDays: number("SnapshotRetentionDays"),
		PITRRecoveryDays:   number("PITRRecoveryPeriodDays"),
		DeletionProtection: text("EnableDeletionProtection") == "true",
		ResourceIndex:      FullIndex,
		NoAggregator:       text(paramAggregator) == "false",
		NoProvisioner:      text(paramProvisioner) == "false",
		Architecture:       text(paramArchitecture),
		LambdaTimeout:      time.Duration(number("LambdaTimeout")) * time.Second,
		LambdaMemory:       number("LambdaMemorySize"),
		Tracing:            text("EnableTracing") == "true",
		LogLevel:           text("LogLevel"),
		LogRetentionDays:   number("LogRetentionDays"),
		NoAuditArchive:     text("EnableAuditArchival") == "false",
		ArchiveGlacierDays: number("AuditArchiveGlacierTransitionDays"),
		NoAlarms:           text("EnableAlarms") == "false",
		AlarmTopicARN:      text("AlarmSNSTopicArn"),
		NoIAM:              text(paramIAM) == "false",
		// Without IAM the parameter has no effect.
		IAMRoles:           text("EnableIAMRoles") == "true" && text(paramIAM) != "false",
		AggregatorRoleARN:  text(paramAggregatorRole),
		ProvisionerRoleARN: text(paramProvisionerRole),
		PermissionBoundary: text("PermissionBoundary"),
		RoleNameFormat:     text("RoleNameFormat"),
	}

	if text(paramLeanIndex) == "true" {
		s.ResourceIndex = LeanIndex
	}

	s.deployed = deployedValues{
		names: map[string]string{}, threshold: number("LambdaDurationThreshold"), timeout: s.LambdaTimeout,
	}

	// The percentage is rounded. The exact threshold applies until a setting
	// changes it.
	if ms := int(s.LambdaTimeout.Milliseconds()); ms > 0 && s.deployed.threshold > 0 {
		s.DurationThresholdPct = max(1, min(100, (s.deployed.threshold*100+ms/2)/ms))
		s.deployed.percentage = s.DurationThresholdPct
	}

	for _, one := range slices.Concat(roles, policies) {
		s.deployed.names[one.parameter] = text(one.parameter)
	}

	return s
}
