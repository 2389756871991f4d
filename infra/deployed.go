package infra

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Deployed is a stack as its owner has it: what to give to [Deploy] to change
// nothing, and to change some fields of to change only those. How long audit
// events are kept is not part of it, since that is in the table. It waits, unless
// NoWait is set, until others have done what they are changing.
//
// Errors are those of Deploy; limiter.ErrNotFound when there is no stack.
func Deployed(ctx context.Context, name string, opts *Options) (Stack, error) {
	s, err := dialDeployed(ctx, "deploy", name, opts)
	if err != nil {
		return Stack{}, err
	}
	wanted, err := s.deployed(ctx)
	return wanted, failure(ctx, "deploy", err)
}

func (s *session) deployed(ctx context.Context) (Stack, error) {
	for range mostRounds {
		stack, err := s.find(ctx)
		if err == nil && stateOf(stack) == missing {
			_, err = s.notFound(ctx)
		}
		if err == nil {
			err = s.checkOwner(ctx, stack)
		}
		if err != nil {
			return Stack{}, err
		}
		if state := stateOf(stack); s.opts.NoWait || state != busy && state != leaving {
			wanted := wantedOf(stack)
			wanted.ArtifactBucket, _ = s.codeOf(ctx, stack)
			return wanted, nil
		}
		if err := s.await(ctx, stack); err != nil {
			return Stack{}, err
		}
	}
	return Stack{}, s.refuseState(&cfn.Stack{})
}

// wantedOf reads back what Stack.parameters wrote. Parameters that the stack's
// template lacks are at their defaults.
func wantedOf(stack *cfn.Stack) Stack {
	text := func(key string) string { value, _ := parameterOf(*stack, key); return value }
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
		IAMRoles:           text("EnableIAMRoles") == "true",
		AggregatorRoleARN:  text(paramAggregatorRole),
		ProvisionerRoleARN: text(paramProvisionerRole),
		PermissionBoundary: text("PermissionBoundary"),
		RoleNameFormat:     text("RoleNameFormat"),
		Tags:               tagsOf(*stack),
		names:              map[string]string{},
	}
	if ms := s.LambdaTimeout.Milliseconds(); ms > 0 {
		s.DurationThresholdPct = min(100, int((int64(number("LambdaDurationThreshold"))*100+ms/2)/ms))
	}
	maps.DeleteFunc(s.Tags, func(key, _ string) bool { return isManagedTag(key) })
	for _, one := range slices.Concat(roles, policies) {
		s.names[one.parameter] = text(one.parameter)
	}
	return s
}
