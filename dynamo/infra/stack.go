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

// Kinds of the index by resource.
const (
	FullIndex = "full" // holds whole items
	LeanIndex = "lean" // holds keys only
)

// Stack configures a stack. The zero value of a field is its documented default;
// the zero Stack has a table, both functions, the policies for users, alarms and
// an archive.
type Stack struct {
	// SnapshotWindows lists the windows in which usage is counted: hourly, daily
	// and monthly, separated by commas. Default: all.
	SnapshotWindows string
	// UsageRetentionDays is the retention of usage; default 90.
	UsageRetentionDays int
	// AuditRetentionDays is the retention of audit events in the registered
	// namespace. Default: as stored there; 90 in a new namespace.
	AuditRetentionDays int
	// PITRRecoveryDays is the period of point-in-time recovery, 1 to 35; default:
	// the maximum of the service.
	PITRRecoveryDays int
	// DeletionProtection protects the table from deletion.
	DeletionProtection bool
	// ResourceIndex is the kind of the index by resource, FullIndex or LeanIndex. It
	// cannot change after the creation. With a lean index a write of a bucket costs
	// one write unit instead of two; listings of a resource cost more, and those of
	// Python clients are empty. Default: as deployed, for a new stack FullIndex.
	ResourceIndex string

	NoAggregator  bool // no function that counts usage
	NoProvisioner bool // no function that applies declared limits
	// Architecture is the architecture of both functions, ARM64 or X8664. Default:
	// as deployed, for a new stack [DefaultArchitecture].
	Architecture  string
	LambdaTimeout time.Duration // of the aggregator, whole seconds up to 15 minutes; default 60 s
	LambdaMemory  int           // of the aggregator in MB, 128 to 3008; default 256
	Tracing       bool          // enables X-Ray for the aggregator
	LogLevel      string        // of both functions: DEBUG, INFO, WARN or ERROR; default INFO
	// LogRetentionDays is the retention of the functions' logs; default 30. It
	// must be one of the values that CloudWatch supports.
	LogRetentionDays int

	NoAuditArchive     bool // no bucket for expired audit events
	ArchiveGlacierDays int  // days until archived events move to cheaper storage; default 90

	NoAlarms             bool
	AlarmTopicARN        string // the SNS topic of the alarms; default none
	DurationThresholdPct int    // duration alarm, in percent of LambdaTimeout; default 80

	// NoIAM creates no roles and policies. The stack then has a function only if
	// the ARN of its role is set.
	NoIAM    bool
	IAMRoles bool // adds roles for applications, administrators and readers
	// AggregatorRoleARN and ProvisionerRoleARN are existing roles for the
	// functions. Default: the stack creates them.
	AggregatorRoleARN, ProvisionerRoleARN string
	// PermissionBoundary is the name or ARN of a policy for every role; default none.
	PermissionBoundary string
	// RoleNameFormat and PolicyNameFormat are names in which {} stands for the name
	// of the stack and a suffix for each role or policy; default "{}".
	RoleNameFormat, PolicyNameFormat string

	// ArtifactBucket is an existing bucket for the functions' code, in the same
	// region. Default: a bucket that Deploy creates and Delete deletes.
	ArtifactBucket string

	// Tags are tags for all resources, at most 44. They cannot override the tags of
	// zae-limiter.
	Tags map[string]string

	deployed deployedValues
}

// deployedValues holds values of a deployed stack that no field of Stack can
// represent.
type deployedValues struct {
	names map[string]string // names of roles and policies without a format, by parameter
	// threshold is the deployed duration alarm in milliseconds. It applies as long
	// as timeout and the rounded percentage are unchanged.
	threshold, percentage int
	timeout               time.Duration
}

// WithDefaults returns s with the default of each zero field.
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

// HasAggregator reports whether the stack has the function that counts usage. It
// needs a role.
func (s Stack) HasAggregator() bool {
	return !s.NoAggregator && (!s.NoIAM || s.AggregatorRoleARN != "")
}

// HasProvisioner reports whether the stack has the function that applies declared
// limits. It needs a role.
func (s Stack) HasProvisioner() bool {
	return !s.NoProvisioner && (!s.NoIAM || s.ProvisionerRoleARN != "")
}

func (s Stack) hasFunctions() bool { return s.HasAggregator() || s.HasProvisioner() }
