package infra

import (
	_ "embed"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

//go:embed template.yaml
var template string

// Template returns the CloudFormation template of a stack, as YAML. It fits into a
// request, and can be deployed without this package.
func Template() []byte { return []byte(template) }

// Parameters of the template that several functions use.
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
	paramLeanIndex       = "EnableLeanIndex"
)

// parameter is a parameter of the template and its value.
type parameter struct{ key, value string }

// parameters returns all parameters of the template, in its order. The value "" is
// the template's default. code is the location of the functions' code, or zero.
func (s Stack) parameters(name string, code object) []parameter {
	s = s.WithDefaults()
	all := []parameter{
		{paramSchema, dynamo.SchemaVersion},
		{"SnapshotWindows", s.SnapshotWindows},
		{"SnapshotRetentionDays", strconv.Itoa(s.UsageRetentionDays)},
		{"LambdaMemorySize", strconv.Itoa(s.LambdaMemory)},
		{"LambdaTimeout", strconv.Itoa(int(s.LambdaTimeout / time.Second))},
		{paramAggregator, strconv.FormatBool(!s.NoAggregator)},
		{"PITRRecoveryPeriodDays", formatOptional(s.PITRRecoveryDays)},
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
		{paramLeanIndex, strconv.FormatBool(s.ResourceIndex == LeanIndex)},
		{paramArchitecture, s.Architecture},
		{paramCodeBucket, code.bucket},
		{paramCodeKey, code.key},
		{paramPosition, ""},
		{"RoleNameFormat", s.RoleNameFormat},
	}

	all = append(all, s.nameParameters(s.RoleNameFormat, name, roles, roleNames)...)
	return append(all, s.nameParameters(s.PolicyNameFormat, name, policies, policyNames)...)
}

// formatOptional returns n as text, or "" for 0.
func formatOptional(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// durationThreshold returns the threshold of the duration alarm in milliseconds.
func (s Stack) durationThreshold() int64 {
	// The deployed threshold may be no whole percentage, such as 54321 ms of
	// 60 s. It stays until a setting changes it.
	if k := s.deployed; k.threshold > 0 && s.LambdaTimeout == k.timeout && s.DurationThresholdPct == k.percentage {
		return int64(k.threshold)
	}
	return s.LambdaTimeout.Milliseconds() * int64(s.DurationThresholdPct) / 100
}

// nameParameters returns the parameters for all names of a kind. It leaves out names
// that are too long: Validate has rejected them if the stack needs them.
func (s Stack) nameParameters(format, stack string, all []iamName, rule nameRule) []parameter {
	var list []parameter
	for _, one := range all {
		// A stack of the Python tool may have names that no format gives.
		name := s.deployed.names[one.parameter]
		if format != "" {
			name = one.expand(format, stack)
		}

		if len(name) > rule.maxName {
			name = ""
		}
		list = append(list, parameter{one.parameter, name})
	}
	return list
}

// parameterNames returns the names of all parameters of the template.
func parameterNames() []string {
	var names []string
	for _, p := range (Stack{}).parameters("", object{}) {
		names = append(names, p.key)
	}
	return names
}

// cfnParameters returns parameters for a request to CloudFormation, without those
// that have no value: their default is empty.
func cfnParameters(all []parameter) []cfn.Parameter {
	var list []cfn.Parameter
	for _, p := range all {
		if p.value != "" {
			list = append(list, cfn.Parameter{ParameterKey: aws.String(p.key), ParameterValue: aws.String(p.value)})
		}
	}
	return list
}

// previousParameters returns the parameters for an update that keeps all values but
// the changed ones. It includes every parameter, because an omitted one falls back
// to its default. known lists the parameters of the next template; nil means all.
func previousParameters(stack cfn.Stack, known []string, changed ...parameter) []cfn.Parameter {
	var list []cfn.Parameter
	for _, p := range stack.Parameters {
		key := aws.ToString(p.ParameterKey)
		isNew := slices.ContainsFunc(changed, func(c parameter) bool { return c.key == key })
		// The starting position is added below.
		if !isNew && key != paramPosition && (known == nil || slices.Contains(known, key)) {
			list = append(list, cfn.Parameter{ParameterKey: p.ParameterKey, UsePreviousValue: aws.Bool(true)})
		}
	}

	list = append(list, cfnParameters(changed)...)
	// CloudFormation rejects a parameter that the template lacks. That of the
	// Python tool lacks this one until it is replaced.
	if _, ok := parameterOf(stack, paramPosition); ok || known != nil {
		list = append(list, positionParameter(&stack))
	}
	return list
}

// positionParameter returns the parameter for the starting position of the
// aggregator: the oldest record in a new stack. It cannot change later. Templates
// of the Python tool lack the parameter, and start at the latest record.
func positionParameter(stack *cfn.Stack) cfn.Parameter {
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

// parameterOf returns the value of a parameter of a stack, and whether its template
// has the parameter.
func parameterOf(stack cfn.Stack, key string) (value string, ok bool) {
	for _, p := range stack.Parameters {
		if aws.ToString(p.ParameterKey) == key {
			return aws.ToString(p.ParameterValue), true
		}
	}
	return "", false
}
