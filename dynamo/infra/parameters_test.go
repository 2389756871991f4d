package infra_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

func TestDefaultsFollowTheirOwnRules(t *testing.T) {
	for name, p := range fakeaws.Section(template(t), "Parameters") {
		def := fakeaws.Text(p, "Default")
		if allowed := fakeaws.Texts(p, "AllowedValues"); len(allowed) > 0 && !slices.Contains(allowed, def) {
			t.Errorf("%s: %q is not allowed", name, def)
		}
		if pattern := fakeaws.Text(p, "AllowedPattern"); pattern != "" &&
			!regexp.MustCompile(pattern).MatchString(def) {
			t.Errorf("%s: %q does not match", name, def)
		}
		if fakeaws.Text(p, "Description") == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func TestPatternsOfParameters(t *testing.T) {
	parameters := fakeaws.Section(template(t), "Parameters")
	for _, test := range []struct {
		name      string
		good, bad []string
	}{
		{"SnapshotWindows", []string{"hourly", "daily,monthly", "hourly, daily, monthly"}, []string{
			"", "weekly", "hourly,", "hourly daily",
		}},
		{"PITRRecoveryPeriodDays", []string{"1", "9", "10", "35"}, []string{"0", "36", "07", "x"}},
		{
			"AggregatorRoleArn",
			[]string{
				"arn:aws:iam::123456789012:role/a/b", "arn:aws-cn:iam::123456789012:role/a",
				"arn:aws-iso-b:iam::123456789012:role/a",
			},
			[]string{
				"a", "arn:awsome:iam::123456789012:role/a", "arn:aws-:iam::123456789012:role/a",
				"arn:aws:iam::1:role/a", "arn:aws:iam::123456789012:user/a",
			},
		},
		{
			"ProvisionerRoleArn",
			[]string{"arn:aws-us-gov:iam::123456789012:role/a", "arn:aws-eusc:iam::123456789012:role/a"},
			[]string{"role/a"},
		},
		{"AlarmSNSTopicArn", []string{"arn:aws:sns:eu-west-1:123456789012:t"}, []string{
			"t", "arn:aws:sqs:eu-west-1:123456789012:t",
		}},
		{"AppRoleName", []string{"a-b_c+=,.@-"}, []string{"a b", "a/b", strings.Repeat("a", 65)}},
		{"AcquireOnlyPolicyName", []string{strings.Repeat("a", 128)}, []string{"a*", strings.Repeat("a", 129)}},
	} {
		pattern := regexp.MustCompile(fakeaws.Text(parameters[test.name], "AllowedPattern"))
		for _, value := range test.good {
			if !pattern.MatchString(value) {
				t.Errorf("%s refuses %q", test.name, value)
			}
		}
		for _, value := range test.bad {
			if pattern.MatchString(value) {
				t.Errorf("%s accepts %q", test.name, value)
			}
		}
	}
}

// Parameters other than switches and names reach these properties.
func TestParametersReachWhatTheyAreFor(t *testing.T) {
	both := func(place string) string { return "AggregatorFunction." + place + " ProvisionerFunction." + place }
	for name, want := range map[string]string{
		"CodeBucket":                        both("Code.S3Bucket"),
		"CodeKey":                           both("Code.S3Key"),
		"Architecture":                      both("Architectures.0"),
		"LogLevel":                          both("Environment.Variables.LOG_LEVEL"),
		"LogRetentionDays":                  "AggregatorLogGroup.RetentionInDays ProvisionerLogGroup.RetentionInDays",
		"LambdaMemorySize":                  "AggregatorFunction.MemorySize",
		"LambdaTimeout":                     "AggregatorFunction.Timeout",
		"LambdaDurationThreshold":           "LambdaDurationAlarm.Threshold",
		"SnapshotWindows":                   "AggregatorFunction.Environment.Variables.SNAPSHOT_WINDOWS",
		"SnapshotRetentionDays":             "AggregatorFunction.Environment.Variables.SNAPSHOT_TTL_DAYS",
		"SchemaVersion":                     "AggregatorFunction.Environment.Variables.ZAE_LIMITER_SCHEMA_VERSION",
		"StreamStartingPosition":            "AggregatorEventSourceMapping.StartingPosition",
		"AuditArchiveGlacierTransitionDays": "AuditArchiveBucket.LifecycleConfiguration.Rules.0.Transitions.0.TransitionInDays",
		"PITRRecoveryPeriodDays":            "RateLimitsTable.PointInTimeRecoverySpecification.RecoveryPeriodInDays",
	} {
		s := everything(t, "app")
		s.Values[name] = "chosen"
		var found []string
		for id, properties := range s.Resources() {
			found = append(found, paths(properties, id, "chosen")...)
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// paths returns the paths to leaves with that value.
func paths(v any, path, value string) (all []string) {
	switch v := v.(type) {
	case string:
		if v == value {
			all = append(all, path)
		}
	case []any:
		for i, e := range v {
			all = append(all, paths(e, fmt.Sprint(path, ".", i), value)...)
		}
	case fakeaws.Tree:
		for name, e := range v {
			all = append(all, paths(e, path+"."+name, value)...)
		}
	}
	return all
}

// nameProperties has the property for the name of a resource, and its maximum length.
var nameProperties = map[string]struct {
	property string
	max      int
}{
	"AWS::DynamoDB::Table":    {"TableName", 255},
	"AWS::Lambda::Function":   {"FunctionName", 64},
	"AWS::IAM::Role":          {"RoleName", 64},
	"AWS::IAM::ManagedPolicy": {"ManagedPolicyName", 128},
	"AWS::SQS::Queue":         {"QueueName", 80},
	"AWS::Logs::LogGroup":     {"LogGroupName", 512},
	"AWS::CloudWatch::Alarm":  {"AlarmName", 255},
}

// tooLong returns the resources whose names are too long in a stack whose name has
// that length.
func tooLong(t *testing.T, length int) (ids []string) {
	t.Helper()
	s := everything(t, strings.Repeat("a", length))
	for id, p := range s.Resources() {
		n := nameProperties[fakeaws.Text(fakeaws.Section(s.Doc, "Resources")[id], "Type")]
		if len(fakeaws.Text(p[n.property])) > n.max {
			ids = append(ids, id)
		}
	}
	return ids
}

// The name of a stack has at most 45 characters with the provisioner, and 53 with
// only the aggregator, because of the names of the functions.
func TestNamesFit(t *testing.T) {
	for length, want := range map[int]string{45: "", 46: "ProvisionerFunction", 53: "ProvisionerFunction"} {
		if got := strings.Join(tooLong(t, length), " "); got != want {
			t.Errorf("in a stack with a name of %d characters these are too long: %s; want %q", length, got, want)
		}
	}
	if got := tooLong(t, 54); len(got) != 2 {
		t.Errorf("at 54 it should be both functions: %s", got)
	}
}

func TestNamesCanBeChosen(t *testing.T) {
	s := everything(t, "app")
	for id, suffix := range map[string]string{
		"AggregatorRole": "aggr", "AppRole": "app", "AdminRole": "admin", "ReadOnlyRole": "read",
		"ProvisionerRole":   "prov",
		"AcquireOnlyPolicy": "acq", "FullAccessPolicy": "full", "ReadOnlyPolicy": "read",
		"NamespaceAcquirePolicy": "ns-acq", "NamespaceFullAccessPolicy": "ns-full",
		"NamespaceReadOnlyPolicy": "ns-read",
	} {
		property := nameProperties[fakeaws.Text(fakeaws.Section(s.Doc, "Resources")[id], "Type")].property
		if got, want := s.Resources()[id][property], "app-"+suffix; got != want {
			t.Errorf("%s is called %v, want %s", id, got, want)
		}
		chosen := everything(t, "app")
		chosen.Values[id+"Name"] = "chosen"
		if got := chosen.Resources()[id][property]; got != "chosen" {
			t.Errorf("%s is called %v though %sName is chosen", id, got, id)
		}
	}
}

func TestBoundaryOfRoles(t *testing.T) {
	for boundary, want := range map[string]any{
		"":                               nil,
		"edge":                           "arn:aws:iam::123456789012:policy/edge",
		"arn:aws:iam::aws:policy/AnyOne": "arn:aws:iam::aws:policy/AnyOne",
	} {
		s := everything(t, "app")
		s.Values["PermissionBoundary"] = boundary
		for _, id := range []string{"AggregatorRole", "AppRole", "AdminRole", "ReadOnlyRole", "ProvisionerRole"} {
			if got := s.Resources()[id]["PermissionsBoundary"]; got != want {
				t.Errorf("%s with %q has the boundary %v, want %v", id, boundary, got, want)
			}
		}
	}
}

// Other stacks import these outputs, so their names and values must not change.
func TestOutputs(t *testing.T) {
	want := map[string][2]string{ // export and value
		"TableName":                      {"TableName", "RateLimitsTable"},
		"TableArn":                       {"TableArn", "RateLimitsTable.Arn"},
		"StreamArn":                      {"StreamArn", "RateLimitsTable.StreamArn"},
		"AggregatorFunctionArn":          {"AggregatorArn", "AggregatorFunction.Arn"},
		"AggregatorFunctionName":         {"AggregatorName", "AggregatorFunction"},
		"AggregatorDLQUrl":               {"DLQUrl", "AggregatorDLQ"},
		"AggregatorDLQArn":               {"DLQArn", "AggregatorDLQ.Arn"},
		"AggregatorDLQAlarmName":         {"DLQAlarmName", "AggregatorDLQAlarm"},
		"LambdaErrorRateAlarmName":       {"LambdaErrorRateAlarmName", "LambdaErrorRateAlarm"},
		"LambdaDurationAlarmName":        {"LambdaDurationAlarmName", "LambdaDurationAlarm"},
		"StreamIteratorAgeAlarmName":     {"StreamIteratorAgeAlarmName", "StreamIteratorAgeAlarm"},
		"ProvisionerErrorAlarmName":      {"ProvisionerErrorAlarmName", "ProvisionerErrorAlarm"},
		"DynamoDBReadThrottleAlarmName":  {"ReadThrottleAlarmName", "DynamoDBReadThrottleAlarm"},
		"DynamoDBWriteThrottleAlarmName": {"WriteThrottleAlarmName", "DynamoDBWriteThrottleAlarm"},
		"AuditArchiveBucketName":         {"AuditArchiveBucketName", "AuditArchiveBucket"},
		"AuditArchiveBucketArn":          {"AuditArchiveBucketArn", "AuditArchiveBucket.Arn"},
		"CodeBucketName":                 {"CodeBucketName", "AuditArchiveBucket"},
		"AcquireOnlyPolicyArn":           {"AcquireOnlyPolicyArn", "AcquireOnlyPolicy"},
		"FullAccessPolicyArn":            {"FullAccessPolicyArn", "FullAccessPolicy"},
		"ReadOnlyPolicyArn":              {"ReadOnlyPolicyArn", "ReadOnlyPolicy"},
		"NamespaceAcquirePolicyArn":      {"NamespaceAcquirePolicyArn", "NamespaceAcquirePolicy"},
		"NamespaceFullAccessPolicyArn":   {"NamespaceFullAccessPolicyArn", "NamespaceFullAccessPolicy"},
		"NamespaceReadOnlyPolicyArn":     {"NamespaceReadOnlyPolicyArn", "NamespaceReadOnlyPolicy"},
		"AppRoleArn":                     {"AppRoleArn", "AppRole.Arn"},
		"AppRoleName":                    {"AppRoleName", "AppRole"},
		"AdminRoleArn":                   {"AdminRoleArn", "AdminRole.Arn"},
		"AdminRoleName":                  {"AdminRoleName", "AdminRole"},
		"ReadOnlyRoleArn":                {"ReadOnlyRoleArn", "ReadOnlyRole.Arn"},
		"ReadOnlyRoleName":               {"ReadOnlyRoleName", "ReadOnlyRole"},
		"PermissionBoundaryArn":          {"PermissionBoundaryArn", "arn:aws:iam::123456789012:policy/edge"},
		"RoleNameFormat":                 {"RoleNameFormat", "our-{}"},
		"ProvisionerFunctionArn":         {"ProvisionerArn", "ProvisionerFunction.Arn"},
		"ProvisionerFunctionName":        {"ProvisionerName", "ProvisionerFunction"},
	}
	s := everything(t, "app")
	got := map[string][2]string{}
	for name, o := range fakeaws.Section(s.Doc, "Outputs") {
		if !s.Includes(o) {
			t.Errorf("%s is missing with everything on", name)
		}
		got[name] = [2]string{
			fakeaws.Text(s.Value(fakeaws.At(o, "Export", "Name"))),
			fakeaws.Text(s.Value(fakeaws.At(o, "Value"))),
		}
	}
	for name, o := range want {
		want[name] = [2]string{"app-" + o[0], o[1]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOutputsOfAnEmptyStack(t *testing.T) {
	s := fakeaws.NewTemplate(template(t), "app", map[string]string{"EnableIAM": "false", "EnableAlarms": "false"})
	got := map[string]string{}
	for name, o := range fakeaws.Section(s.Doc, "Outputs") {
		if s.Includes(o) {
			got[name] = fakeaws.Text(s.Value(fakeaws.At(o, "Value")))
		}
	}
	want := map[string]string{
		"TableName": "RateLimitsTable", "TableArn": "RateLimitsTable.Arn", "StreamArn": "RateLimitsTable.StreamArn",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// CloudFormation rolls a stack back if an export is blank.
func TestNoExportIsBlank(t *testing.T) {
	doc := template(t)
	for _, values := range combinations("EnableAggregator", "EnableProvisioner", "EnableAlarms", "EnableIAM",
		"EnableIAMRoles",
		"EnableAuditArchival", "AggregatorRoleArn", "ProvisionerRoleArn", "PermissionBoundary", "RoleNameFormat",
		"AlarmSNSTopicArn") {
		s := fakeaws.NewTemplate(doc, "app", values)
		for name, o := range fakeaws.Section(doc, "Outputs") {
			if !s.Includes(o) || fakeaws.At(o, "Export") == nil {
				continue
			}
			for _, part := range [][]string{{"Value"}, {"Export", "Name"}} {
				if strings.TrimSpace(fakeaws.Text(s.Value(fakeaws.At(o, part...)))) == "" {
					t.Errorf("%s.%s is blank with %v", name, strings.Join(part, "."), values)
				}
			}
		}
	}
}
