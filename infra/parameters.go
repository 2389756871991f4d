package infra

import (
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Parameters of the template that more than one place knows.
const (
	paramSchema          = "SchemaVersion"
	paramCodeBucket      = "CodeBucket"
	paramCodeKey         = "CodeKey"
	paramArchitecture    = "Architecture"
	paramAggregator      = "EnableAggregator"
	paramAggregatorRole  = "AggregatorRoleArn"
	paramProvisioner     = "EnableProvisioner"
	paramProvisionerRole = "ProvisionerRoleArn"
	paramIAM             = "EnableIAM"
	paramPosition        = "StreamStartingPosition"
)

// parameter is one of the template's, with its value.
type parameter struct{ key, value string }

// parameters are all that the template has, in its order, with "" for those
// that keep the template's default. The code is where the functions' is, zero
// for none.
func (s Stack) parameters(name string, code object) []parameter {
	s = s.WithDefaults()
	all := []parameter{
		{paramSchema, dynamo.SchemaVersion},
		{"SnapshotWindows", s.SnapshotWindows},
		{"SnapshotRetentionDays", strconv.Itoa(s.UsageRetentionDays)},
		{"LambdaMemorySize", strconv.Itoa(s.LambdaMemory)},
		{"LambdaTimeout", strconv.Itoa(int(s.LambdaTimeout / time.Second))},
		{paramAggregator, strconv.FormatBool(!s.NoAggregator)},
		{"PITRRecoveryPeriodDays", orEmpty(s.PITRRecoveryDays)},
		{"EnableAlarms", strconv.FormatBool(!s.NoAlarms)},
		{"AlarmSNSTopicArn", s.AlarmTopicARN},
		{"LogLevel", s.LogLevel},
		{"LogRetentionDays", strconv.Itoa(s.LogRetentionDays)},
		{"LambdaDurationThreshold", strconv.FormatInt(s.durationThreshold(), 10)},
		{"PermissionBoundary", s.PermissionBoundary},
		{"EnableAuditArchival", strconv.FormatBool(!s.NoAuditArchive)},
		{"AuditArchiveGlacierTransitionDays", strconv.Itoa(s.ArchiveGlacierDays)},
		{"EnableTracing", strconv.FormatBool(s.Tracing)},
		{"EnableIAMRoles", strconv.FormatBool(s.IAMRoles)},
		{paramIAM, strconv.FormatBool(!s.NoIAM)},
		{paramAggregatorRole, s.AggregatorRoleARN},
		{paramProvisioner, strconv.FormatBool(!s.NoProvisioner)},
		{paramProvisionerRole, s.ProvisionerRoleARN},
		{"EnableDeletionProtection", strconv.FormatBool(s.DeletionProtection)},
		{paramArchitecture, s.Architecture},
		{paramCodeBucket, code.bucket},
		{paramCodeKey, code.key},
		{paramPosition, ""},
		{"RoleNameFormat", s.RoleNameFormat},
	}
	all = append(all, s.customNames(s.RoleNameFormat, name, roles, roleNaming)...)
	return append(all, s.customNames(s.PolicyNameFormat, name, policies, policyNaming)...)
}

func orEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// durationThreshold is in milliseconds. It is a whole number all the way.
func (s Stack) durationThreshold() int64 {
	if k := s.kept; k.threshold > 0 && s.LambdaTimeout == k.timeout && s.DurationThresholdPct == k.percentage {
		return int64(k.threshold)
	}
	return s.LambdaTimeout.Milliseconds() * int64(s.DurationThresholdPct) / 100
}

// customNames are the parameters for all names of a kind. Those that would be too
// long are left out: they are of what is not made, since others were refused.
func (s Stack) customNames(format, stack string, all []named, rule naming) []parameter {
	var list []parameter
	for _, one := range all {
		name := s.kept.names[one.parameter]
		if format != "" {
			name = one.of(format, stack)
		}
		if len(name) > rule.longestName {
			name = ""
		}
		list = append(list, parameter{one.parameter, name})
	}
	return list
}

// parameterNames are all that the template has.
func parameterNames() []string {
	var names []string
	for _, p := range (Stack{}).parameters("", object{}) {
		names = append(names, p.key)
	}
	return names
}

// sent are parameters as CloudFormation takes them. Those without a value are
// left out: the template's default for them is none.
func sent(all []parameter) []cfn.Parameter {
	var list []cfn.Parameter
	for _, p := range all {
		if p.value != "" {
			list = append(list, cfn.Parameter{ParameterKey: aws.String(p.key), ParameterValue: aws.String(p.value)})
		}
	}
	return list
}

// previous are the parameters a stack has, but for those that get a new value.
// Whatever is omitted in an update falls back to the template's default, so all
// are sent. known says which the next template has; nil for all.
func previous(stack cfn.Stack, known []string, changed ...parameter) []cfn.Parameter {
	var list []cfn.Parameter
	for _, p := range stack.Parameters {
		key := aws.ToString(p.ParameterKey)
		isNew := slices.ContainsFunc(changed, func(c parameter) bool { return c.key == key })
		if !isNew && key != paramPosition && (known == nil || slices.Contains(known, key)) {
			list = append(list, cfn.Parameter{ParameterKey: p.ParameterKey, UsePreviousValue: aws.Bool(true)})
		}
	}
	list = append(list, sent(changed)...)
	if _, ok := parameterOf(stack, paramPosition); ok || known != nil {
		list = append(list, position(&stack))
	}
	return list
}

// position is where the aggregator begins to read: in a stack that is made, with
// the oldest. It cannot change later. A template without the parameter is
// Python's, which begins with what comes.
func position(stack *cfn.Stack) cfn.Parameter {
	p := cfn.Parameter{ParameterKey: aws.String(paramPosition)}
	if stack == nil {
		p.ParameterValue = aws.String("TRIM_HORIZON")
	} else if _, ok := parameterOf(*stack, paramPosition); ok {
		p.UsePreviousValue = aws.Bool(true)
	} else {
		p.ParameterValue = aws.String("LATEST")
	}
	return p
}

// parameterOf is the value a stack has for a parameter, and whether its template
// has it at all.
func parameterOf(stack cfn.Stack, key string) (value string, ok bool) {
	for _, p := range stack.Parameters {
		if aws.ToString(p.ParameterKey) == key {
			return aws.ToString(p.ParameterValue), true
		}
	}
	return "", false
}
