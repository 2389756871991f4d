package infra_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// alarm is what decides when there is one.
type alarm struct {
	Name, Metric, Statistic, Comparison, Threshold, Periods string
}

func TestAlarms(t *testing.T) {
	const above, atLeast = "GreaterThanThreshold", "GreaterThanOrEqualToThreshold"
	want := map[string]alarm{
		"AggregatorDLQAlarm":         {"app-aggregator-dlq-alarm", "AWS/SQS ApproximateNumberOfMessagesVisible AggregatorDLQ.QueueName", "Maximum", atLeast, "1", "1"},
		"LambdaErrorRateAlarm":       {"app-aggregator-error-rate", "100 * errors / invocations", "", above, "1", "2"},
		"LambdaDurationAlarm":        {"app-aggregator-duration", "AWS/Lambda Duration AggregatorFunction", "Average", above, "48000", "2"},
		"StreamIteratorAgeAlarm":     {"app-stream-iterator-age", "AWS/Lambda IteratorAge AggregatorFunction", "Maximum", above, "30000", "2"},
		"ProvisionerErrorAlarm":      {"app-limits-provisioner-errors", "AWS/Lambda Errors ProvisionerFunction", "Sum", atLeast, "1", "1"},
		"DynamoDBReadThrottleAlarm":  {"app-read-throttle", "AWS/DynamoDB ReadThrottleEvents RateLimitsTable", "Sum", above, "1", "2"},
		"DynamoDBWriteThrottleAlarm": {"app-write-throttle", "AWS/DynamoDB WriteThrottleEvents RateLimitsTable", "Sum", above, "1", "2"},
	}
	got := map[string]alarm{}
	doc := ours(t)
	made, silent := everything(t, "app").resources(), newStack(doc, "app", nil).resources()
	for id, p := range made {
		if text(at(section(doc, "Resources")[id], "Type")) != "AWS::CloudWatch::Alarm" {
			continue
		}
		got[id] = alarm{
			text(p["AlarmName"]), metricOf(p), text(p["Statistic"]), text(p["ComparisonOperator"]), text(p["Threshold"]), text(p["EvaluationPeriods"]),
		}
		if p["TreatMissingData"] != "notBreaching" || text(p["AlarmDescription"]) == "" {
			t.Errorf("%s: %v, %v", id, p["TreatMissingData"], p["AlarmDescription"])
		}
		if actions := texts(p["AlarmActions"]); !slices.Equal(actions, []string{"topic"}) {
			t.Errorf("%s tells %v", id, actions)
		}
		if _, set := silent[id]["AlarmActions"]; set {
			t.Errorf("%s has actions without a topic", id)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Lambda takes an answer for a success, whatever it says. The alarms promise no
// more than they see.
func TestAlarmsOfFunctionsSayWhatTheySee(t *testing.T) {
	made := everything(t, "app").resources()
	says := func(id string) string { return text(made[id]["AlarmDescription"]) }
	if late := text(made["StreamIteratorAgeAlarm"]["AlarmName"]); !strings.Contains(says("LambdaErrorRateAlarm"), "as a whole") || !strings.Contains(says("LambdaErrorRateAlarm"), late) {
		t.Errorf("records that come again are no errors, which %s tells: %s", late, says("LambdaErrorRateAlarm"))
	}
	if told := says("ProvisionerErrorAlarm"); !strings.Contains(told, "crashed, ran out of time, could not answer") || !strings.Contains(told, "events of that stack") {
		t.Errorf("what fails for CloudFormation is no error: %s", told)
	}
}

// metricOf is what an alarm looks at, every five minutes.
func metricOf(p tree) string {
	if list, ok := p["Metrics"].([]any); ok {
		return text(at(list[0], "Expression"))
	}
	metric := text(p["Namespace"]) + " " + text(p["MetricName"])
	dimensions, _ := p["Dimensions"].([]any)
	for _, d := range dimensions {
		metric += " " + text(at(d, "Value"))
	}
	if p["Period"] != "300" {
		return metric + " every " + text(p["Period"]) + " s"
	}
	return metric
}

// The rate is one: of errors and invocations of the same function and time.
func TestErrorRateIsARate(t *testing.T) {
	list, _ := everything(t, "app").resources()["LambdaErrorRateAlarm"]["Metrics"].([]any)
	stats := map[string]any{}
	returned := map[string]string{}
	for _, m := range list {
		id := text(at(m, "Id"))
		returned[id] = text(at(m, "ReturnData"))
		if s := at(m, "MetricStat"); s != nil {
			stats[id] = s
		}
	}
	sum := func(metric string) tree {
		return tree{"Stat": "Sum", "Period": "300", "Metric": tree{
			"Namespace": "AWS/Lambda", "MetricName": metric,
			"Dimensions": []any{tree{"Name": "FunctionName", "Value": "AggregatorFunction"}},
		}}
	}
	if diff := cmp.Diff(map[string]any{"errors": sum("Errors"), "invocations": sum("Invocations")}, stats); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := map[string]string{"rate": "true", "errors": "false", "invocations": "false"}; !maps.Equal(returned, want) {
		t.Errorf("returned: %v, want %v", returned, want)
	}
}
