package infra_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Other stacks import these, so neither names nor what they mean may change.
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
	for name, o := range section(s.doc, "Outputs") {
		if !s.makes(o) {
			t.Errorf("%s is missing with everything on", name)
		}
		got[name] = [2]string{text(s.value(at(o, "Export", "Name"))), text(s.value(at(o, "Value")))}
	}
	for name, o := range want {
		want[name] = [2]string{"app-" + o[0], o[1]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOutputsOfAnEmptyStack(t *testing.T) {
	s := newStack(ours(t), "app", map[string]string{"EnableIAM": "false", "EnableAlarms": "false"})
	got := map[string]string{}
	for name, o := range section(s.doc, "Outputs") {
		if s.makes(o) {
			got[name] = text(s.value(at(o, "Value")))
		}
	}
	want := map[string]string{
		"TableName": "RateLimitsTable", "TableArn": "RateLimitsTable.Arn", "StreamArn": "RateLimitsTable.StreamArn",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// CloudFormation takes a stack back when it has made all of it and finds an
// export that is blank.
func TestNoExportIsBlank(t *testing.T) {
	doc := ours(t)
	for _, values := range switched("EnableAggregator", "EnableProvisioner", "EnableAlarms", "EnableIAM", "EnableIAMRoles",
		"EnableAuditArchival", "AggregatorRoleArn", "ProvisionerRoleArn", "PermissionBoundary", "RoleNameFormat", "AlarmSNSTopicArn") {
		s := newStack(doc, "app", values)
		for name, o := range section(doc, "Outputs") {
			if !s.makes(o) || at(o, "Export") == nil {
				continue
			}
			for _, part := range [][]string{{"Value"}, {"Export", "Name"}} {
				if strings.TrimSpace(text(s.value(at(o, part...)))) == "" {
					t.Errorf("%s.%s is blank with %v", name, strings.Join(part, "."), values)
				}
			}
		}
	}
}
