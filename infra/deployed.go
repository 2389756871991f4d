package infra

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go"
)

// settle makes Options.Stack what is to be deployed, given what is there, nil if
// nothing is.
func (s *session) settle(ctx context.Context, stack *cfn.Stack) error {
	err := s.ask(ctx, stack)
	s.opts.Stack.Architecture = s.architecture(stack)
	return err
}

// architecture is what the functions are going to run on: as the owner says, else
// as before, else as the code at hand.
func (s *session) architecture(stack *cfn.Stack) string {
	if said := cmp.Or(s.opts.Stack.Architecture, runsOn(stack)); said != "" {
		return said
	}
	return ArchitectureAtHand(s.opts.Zip)
}

// runsOn is the architecture of the functions of a stack, "" if it has none.
func runsOn(stack *cfn.Stack) string {
	if stack == nil || !wantedOf(stack).hasFunctions() {
		return ""
	}
	return wantedOf(stack).Architecture
}

// ask has Options.Settle say what to deploy.
func (s *session) ask(ctx context.Context, stack *cfn.Stack) error {
	if s.opts.Settle == nil {
		return nil
	}
	if stack == nil {
		s.opts.Stack = s.opts.Settle(nil)
		return s.judge()
	}
	deployed := wantedOf(stack)
	deployed.Architecture = runsOn(stack)
	deployed.ArtifactBucket, _ = s.codeOf(ctx, stack)
	s.opts.Stack = s.opts.Settle(&deployed)
	err := s.judge()
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return invalid(bad.Field, bad.Value, bad.Reason+"; what no flag says is as it is deployed, unless --reset is given")
	}
	return err
}

// judge is whether the stack can be deployed, as far as is known without a call.
func (s *session) judge() error {
	return cmp.Or(s.opts.Stack.Validate(s.name), checkTopicRegion(s.opts.Stack.AlarmTopicARN, s.region))
}

// wantedOf reads back what Stack.parameters wrote.
func wantedOf(stack *cfn.Stack) Stack {
	s := settingsOf(func(key string) string { value, _ := parameterOf(*stack, key); return value })
	s.Tags = tagsOf(*stack)
	maps.DeleteFunc(s.Tags, func(key, _ string) bool { return isManagedTag(key) })
	return s
}

// settingsOf are what parameters say. Those that a stack's template lacks are at
// their defaults.
func settingsOf(text func(key string) string) Stack {
	number := func(key string) int { n, _ := strconv.Atoi(text(key)); return n }
	s := Stack{
		SnapshotWindows:    strings.ReplaceAll(text("SnapshotWindows"), " ", ""),
		UsageRetentionDays: number("SnapshotRetentionDays"),
		PITRRecoveryDays:   number("PITRRecoveryPeriodDays"),
		DeletionProtection: text("EnableDeletionProtection") == "true",
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
		IAMRoles:           text("EnableIAMRoles") == "true" && text(paramIAM) != "false", // which has no effect without
		AggregatorRoleARN:  text(paramAggregatorRole),
		ProvisionerRoleARN: text(paramProvisionerRole),
		PermissionBoundary: text("PermissionBoundary"),
		RoleNameFormat:     text("RoleNameFormat"),
	}
	s.kept = kept{names: map[string]string{}, threshold: number("LambdaDurationThreshold"), timeout: s.LambdaTimeout}
	if ms := int(s.LambdaTimeout.Milliseconds()); ms > 0 && s.kept.threshold > 0 {
		s.DurationThresholdPct = max(1, min(100, (s.kept.threshold*100+ms/2)/ms))
		s.kept.percentage = s.DurationThresholdPct
	}
	for _, one := range slices.Concat(roles, policies) {
		s.kept.names[one.parameter] = text(one.parameter)
	}
	return s
}
