package infra_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The switches of a stack, and what each brings with it.
func TestSwitches(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/x"
	policies := []string{
		"AcquireOnlyPolicy", "FullAccessPolicy", "ReadOnlyPolicy",
		"NamespaceAcquirePolicy", "NamespaceFullAccessPolicy", "NamespaceReadOnlyPolicy",
	}
	aggregator := []string{"AggregatorFunction", "AggregatorEventSourceMapping", "AggregatorDLQ", "AggregatorLogGroup", "AuditArchiveBucket"}
	provisioner := []string{"ProvisionerFunction", "ProvisionerLogGroup"}
	aggregatorAlarms := []string{"AggregatorDLQAlarm", "LambdaErrorRateAlarm", "LambdaDurationAlarm", "StreamIteratorAgeAlarm"}
	tableAlarms := []string{"DynamoDBReadThrottleAlarm", "DynamoDBWriteThrottleAlarm"}
	all := slices.Concat(policies, aggregator, provisioner, aggregatorAlarms, tableAlarms,
		[]string{"ProvisionerErrorAlarm", "AggregatorRole", "ProvisionerRole"})
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(names, id) })
	}
	for _, test := range []struct {
		name   string
		values map[string]string
		want   []string // besides the table
	}{
		{"defaults", nil, all},
		{"roles", map[string]string{"EnableIAMRoles": "true"}, append(slices.Clone(all), "AppRole", "AdminRole", "ReadOnlyRole")},
		{"no IAM", map[string]string{"EnableIAM": "false"}, tableAlarms},
		{"no IAM, but roles", map[string]string{"EnableIAM": "false", "EnableIAMRoles": "true"}, tableAlarms},
		{
			"no IAM, role of the aggregator",
			map[string]string{"EnableIAM": "false", "AggregatorRoleArn": role},
			slices.Concat(aggregator, aggregatorAlarms, tableAlarms),
		},
		{
			"no IAM, role of the provisioner",
			map[string]string{"EnableIAM": "false", "ProvisionerRoleArn": role},
			slices.Concat(provisioner, []string{"ProvisionerErrorAlarm"}, tableAlarms),
		},
		{"roles from elsewhere", map[string]string{"AggregatorRoleArn": role, "ProvisionerRoleArn": role}, without("AggregatorRole", "ProvisionerRole")},
		{"no archive", map[string]string{"EnableAuditArchival": "false"}, without("AuditArchiveBucket")},
		{
			"no aggregator",
			map[string]string{"EnableAggregator": "false"},
			without(slices.Concat(aggregator, aggregatorAlarms, []string{"AggregatorRole"})...),
		},
		{
			"no provisioner",
			map[string]string{"EnableProvisioner": "false"},
			without(append(provisioner, "ProvisionerErrorAlarm", "ProvisionerRole")...),
		},
		{
			"no alarms",
			map[string]string{"EnableAlarms": "false"},
			without(slices.Concat(aggregatorAlarms, tableAlarms, []string{"ProvisionerErrorAlarm"})...),
		},
	} {
		got := slices.Sorted(maps.Keys(newStack(ours(t), "app", test.values).resources()))
		want := slices.Sorted(slices.Values(append(slices.Clone(test.want), "RateLimitsTable")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
