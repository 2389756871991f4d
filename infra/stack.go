package infra

import (
	"cmp"
	"time"
)

// Architectures of the functions.
const (
	ARM64 = "arm64"
	X8664 = "x86_64"
)

// Stack is what its owner wants to have in the account. The zero value of a
// field is its documented default, and that of the whole is a table with both
// functions, the policies for its users, alarms and an archive.
type Stack struct {
	// SnapshotWindows are those that usage is counted in: hourly, daily and
	// monthly, separated by commas. Default: all.
	SnapshotWindows string
	// UsageRetentionDays is how long usage is kept; default 90.
	UsageRetentionDays int
	// AuditRetentionDays is how long audit events are kept in the namespace that
	// is registered; default: as stored there, which is 90 in a new one.
	AuditRetentionDays int
	// PITRRecoveryDays is how far back the table can be restored, 1 to 35;
	// default: as long as the service allows.
	PITRRecoveryDays int
	// DeletionProtection makes the service refuse to delete the table.
	DeletionProtection bool

	NoAggregator  bool          // no function that counts usage
	NoProvisioner bool          // no function that applies declared limits
	Architecture  string        // of both functions, ARM64 or X8664; default: as deployed, at first [ArchitectureAtHand]
	LambdaTimeout time.Duration // of the aggregator, whole seconds up to 15 minutes; default 60 s
	LambdaMemory  int           // of the aggregator in MB, 128 to 3008; default 256
	Tracing       bool          // X-Ray for the aggregator
	LogLevel      string        // of both functions: DEBUG, INFO, WARN or ERROR; default INFO
	// LogRetentionDays is how long the functions' logs are kept; default 30. Only
	// some numbers are possible, which the error for another lists.
	LogRetentionDays int

	NoAuditArchive     bool // expired audit events are not kept in a bucket
	ArchiveGlacierDays int  // after how many days they move to cheaper storage; default 90

	NoAlarms             bool
	AlarmTopicARN        string // the SNS topic that alarms are sent to; default none
	DurationThresholdPct int    // of LambdaTimeout, when an alarm is raised; default 80

	// NoIAM makes no role and no policy. A function is then made only if its
	// role is given.
	NoIAM    bool
	IAMRoles bool // also roles for applications, administrators and readers
	// AggregatorRoleARN and ProvisionerRoleARN are roles that the functions use
	// instead of one that is made for them.
	AggregatorRoleARN, ProvisionerRoleARN string
	PermissionBoundary                    string // of every role: name or ARN of a policy; default none
	// RoleNameFormat and PolicyNameFormat are names with {} in the place of the
	// stack's name and what the role or policy is for; default "{}".
	RoleNameFormat, PolicyNameFormat string

	// ArtifactBucket is where the functions' code is put. It must be in the same
	// region and is never removed. Default: a bucket that is made for the stack
	// and goes with it.
	ArtifactBucket string

	// Tags of the owner, at most 44. Those of zae-limiter itself win.
	Tags map[string]string

	kept kept
}

// kept is what a stack that is there has, and no field can say.
type kept struct {
	names map[string]string // of roles and policies, by parameter, where no format says them
	// threshold, in milliseconds, is that of an aggregator with this timeout and
	// this percentage, which may be no whole one.
	threshold, percentage int
	timeout               time.Duration
}

// WithDefaults is the stack with every field said that has a default.
func (s Stack) WithDefaults() Stack {
	s.SnapshotWindows = cmp.Or(s.SnapshotWindows, "hourly,daily,monthly")
	s.UsageRetentionDays = cmp.Or(s.UsageRetentionDays, 90)
	s.Architecture = cmp.Or(s.Architecture, ARM64)
	s.LambdaTimeout = cmp.Or(s.LambdaTimeout, time.Minute)
	s.LambdaMemory = cmp.Or(s.LambdaMemory, 256)
	s.LogLevel = cmp.Or(s.LogLevel, "INFO")
	s.LogRetentionDays = cmp.Or(s.LogRetentionDays, 30)
	s.ArchiveGlacierDays = cmp.Or(s.ArchiveGlacierDays, 90)
	s.DurationThresholdPct = cmp.Or(s.DurationThresholdPct, 80)
	return s
}

// HasAggregator tells whether the stack has the function that counts usage: it
// is wanted, and has a role.
func (s Stack) HasAggregator() bool {
	return !s.NoAggregator && (!s.NoIAM || s.AggregatorRoleARN != "")
}

// HasProvisioner tells whether the stack has the function that applies declared
// limits: it is wanted, and has a role.
func (s Stack) HasProvisioner() bool {
	return !s.NoProvisioner && (!s.NoIAM || s.ProvisionerRoleARN != "")
}

func (s Stack) hasFunctions() bool { return s.HasAggregator() || s.HasProvisioner() }
