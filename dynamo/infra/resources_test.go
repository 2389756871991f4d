package infra_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// everything returns a template with all resources enabled.
func everything(tb testing.TB, name string) fakeaws.Template {
	tb.Helper()
	return fakeaws.NewTemplate(template(tb), name, map[string]string{
		"EnableIAMRoles": "true", "EnableTracing": "true", "CodeBucket": "code", "CodeKey": "key",
		"AlarmSNSTopicArn": "topic", "PermissionBoundary": "edge", "RoleNameFormat": "our-{}",
		"PITRRecoveryPeriodDays": "7", "EnableDeletionProtection": "true",
	})
}

// The keys and indexes of the table must not change: Python services share them.
func TestTable(t *testing.T) {
	s := everything(t, "app")
	got := s.Resources()["RateLimitsTable"]
	index := func(name, projection string) fakeaws.Tree {
		return fakeaws.Tree{
			"IndexName": name, "Projection": fakeaws.Tree{"ProjectionType": projection},
			"KeySchema": []any{
				fakeaws.Tree{"AttributeName": name + "PK", "KeyType": "HASH"},
				fakeaws.Tree{"AttributeName": name + "SK", "KeyType": "RANGE"},
			},
		}
	}
	var keys []any
	for name := range strings.FieldsSeq("PK SK GSI1PK GSI1SK GSI2PK GSI2SK GSI3PK GSI3SK GSI4PK GSI4SK") {
		keys = append(keys, fakeaws.Tree{"AttributeName": name, "AttributeType": "S"})
	}
	want := fakeaws.Tree{
		"TableName": "app", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": keys,
		"KeySchema": []any{
			fakeaws.Tree{"AttributeName": "PK", "KeyType": "HASH"},
			fakeaws.Tree{"AttributeName": "SK", "KeyType": "RANGE"},
		},
		"GlobalSecondaryIndexes": []any{
			index("GSI1", "ALL"), index("GSI2", "ALL"), index("GSI3", "KEYS_ONLY"), index("GSI4", "KEYS_ONLY"),
		},
		"StreamSpecification":     fakeaws.Tree{"StreamViewType": "NEW_AND_OLD_IMAGES"},
		"TimeToLiveSpecification": fakeaws.Tree{"AttributeName": "ttl", "Enabled": "true"},
		"PointInTimeRecoverySpecification": fakeaws.Tree{
			"PointInTimeRecoveryEnabled": "true", "RecoveryPeriodInDays": "7",
		},
		"DeletionProtectionEnabled": "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := fakeaws.NewTemplate(template(t), "app", nil).Resources()["RateLimitsTable"]
	if fakeaws.At(
		plain, "PointInTimeRecoverySpecification", "RecoveryPeriodInDays",
	) != nil || plain["DeletionProtectionEnabled"] != "false" {
		t.Errorf("with the defaults: %v", plain)
	}
	lean := everything(t, "app")
	lean.Values["EnableLeanIndex"] = "true"
	want["GlobalSecondaryIndexes"] = []any{
		index("GSI1", "ALL"), index("GSI2", "KEYS_ONLY"), index("GSI3", "KEYS_ONLY"),
		index("GSI4", "KEYS_ONLY"),
	}
	if diff := cmp.Diff(want, lean.Resources()["RateLimitsTable"]); diff != "" {
		t.Errorf("with a lean index (-want +got):\n%s", diff)
	}
}

func TestFunctions(t *testing.T) {
	made := everything(t, "app").Resources()
	for id, want := range map[string]fakeaws.Tree{
		"AggregatorFunction": {
			"FunctionName": "app-aggregator", "MemorySize": "256", "Timeout": "60", "Role": "AggregatorRole.Arn",
			"TracingConfig": fakeaws.Tree{"Mode": "Active"},
			"Environment": fakeaws.Tree{"Variables": fakeaws.Tree{
				"ZAE_LIMITER_HANDLER": "aggregator", "TABLE_NAME": "RateLimitsTable", "LOG_LEVEL": "INFO",
				"SNAPSHOT_WINDOWS": "hourly,daily,monthly", "SNAPSHOT_TTL_DAYS": "90",
				"ZAE_LIMITER_SCHEMA_VERSION": "0.8.0",
				"ENABLE_ARCHIVAL":            "true", "ARCHIVE_BUCKET_NAME": "AuditArchiveBucket",
			}},
		},
		"ProvisionerFunction": {
			"FunctionName": "app-limits-provisioner", "MemorySize": "256", "Timeout": "300",
			"Role": "ProvisionerRole.Arn",
			"Environment": fakeaws.Tree{"Variables": fakeaws.Tree{
				"ZAE_LIMITER_HANDLER": "provisioner", "TABLE_NAME": "RateLimitsTable", "LOG_LEVEL": "INFO",
			}},
		},
	} {
		maps.Copy(want, fakeaws.Tree{
			"Runtime": "provided.al2023", "Handler": "bootstrap", "Architectures": []any{"arm64"},
			"Code": fakeaws.Tree{"S3Bucket": "code", "S3Key": "key"},
		})
		got := maps.Clone(made[id])
		delete(got, "Description")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	bare := fakeaws.NewTemplate(template(t), "app", map[string]string{
		"EnableAuditArchival": "false", "AggregatorRoleArn": "theirs", "ProvisionerRoleArn": "theirs too",
		"Architecture": "x86_64",
	}).Resources()
	for path, want := range map[string]string{
		"AggregatorFunction Environment Variables ENABLE_ARCHIVAL":     "false",
		"AggregatorFunction Environment Variables ARCHIVE_BUCKET_NAME": "",
		"AggregatorFunction TracingConfig Mode":                        "PassThrough",
		"AggregatorFunction Role":                                      "theirs",
		"ProvisionerFunction Role":                                     "theirs too",
	} {
		words := strings.Fields(path)
		if got := fakeaws.At(bare[words[0]], words[1:]...); got != want {
			t.Errorf("%s is %v, want %q", path, got, want)
		}
	}
	if got := fakeaws.Texts(bare["AggregatorFunction"]["Architectures"]); !slices.Equal(got, []string{"x86_64"}) {
		t.Errorf("architectures %v", got)
	}
}

func TestStreamIsReadWithoutLoss(t *testing.T) {
	s := everything(t, "app")
	got := s.Resources()["AggregatorEventSourceMapping"]
	filters, _ := fakeaws.At(got, "FilterCriteria", "Filters").([]any)
	var patterns []any
	for _, f := range filters {
		var pattern any
		if err := json.Unmarshal([]byte(fakeaws.Text(f, "Pattern")), &pattern); err != nil {
			t.Error(err)
		}
		patterns = append(patterns, pattern)
	}
	image := func(name, prefix string) fakeaws.Tree {
		return fakeaws.Tree{name: fakeaws.Tree{"SK": fakeaws.Tree{"S": []any{fakeaws.Tree{"prefix": prefix}}}}}
	}
	if diff := cmp.Diff([]any{
		fakeaws.Tree{"eventName": []any{"INSERT", "MODIFY"}, "dynamodb": image("NewImage", "#BUCKET#")},
		fakeaws.Tree{"eventName": []any{"REMOVE"}, "dynamodb": image("OldImage", "#AUDIT#")},
	}, patterns); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	delete(got, "FilterCriteria")
	if diff := cmp.Diff(fakeaws.Tree{
		"EventSourceArn": "RateLimitsTable.StreamArn", "FunctionName": "AggregatorFunction",
		"StartingPosition": "TRIM_HORIZON",
		"BatchSize":        "100", "MaximumBatchingWindowInSeconds": "1", "MaximumRetryAttempts": "-1",
		"MaximumRecordAgeInSeconds":  "3600",
		"BisectBatchOnFunctionError": "true", "FunctionResponseTypes": []any{"ReportBatchItemFailures"},
		"DestinationConfig": fakeaws.Tree{"OnFailure": fakeaws.Tree{"Destination": "AggregatorDLQ.Arn"}},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The aggregator skips records older than 3600 seconds, wherever it starts.
	if says := fakeaws.Text(
		fakeaws.Section(s.Doc, "Parameters")["StreamStartingPosition"], "Description",
	); !strings.Contains(says, "up to an hour") {
		t.Errorf("the description promises more: %s", says)
	}
}

// Resources with data have a deletion policy, and the archive outlives the stack.
func TestDeletionPolicies(t *testing.T) {
	resources := fakeaws.Section(template(t), "Resources")
	for id, want := range map[string][2]string{
		"RateLimitsTable":     {"Delete", "Retain"},
		"AuditArchiveBucket":  {"RetainExceptOnCreate", "Retain"},
		"AggregatorDLQ":       {"Delete", "Delete"},
		"AggregatorLogGroup":  {"Delete", "Delete"},
		"ProvisionerLogGroup": {"Delete", "Delete"},
	} {
		if got := [2]string{
			fakeaws.Text(resources[id], "DeletionPolicy"), fakeaws.Text(resources[id], "UpdateReplacePolicy"),
		}; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	made := everything(t, "app").Resources()
	for id, want := range map[string]fakeaws.Tree{
		"AuditArchiveBucket": {
			"BucketEncryption": fakeaws.Tree{"ServerSideEncryptionConfiguration": []any{
				fakeaws.Tree{"ServerSideEncryptionByDefault": fakeaws.Tree{"SSEAlgorithm": "AES256"}},
			}},
			"PublicAccessBlockConfiguration": fakeaws.Tree{
				"BlockPublicAcls": "true", "BlockPublicPolicy": "true", "IgnorePublicAcls": "true",
				"RestrictPublicBuckets": "true",
			},
			"LifecycleConfiguration": fakeaws.Tree{"Rules": []any{fakeaws.Tree{
				"Id": "cheaper-storage", "Status": "Enabled",
				"Transitions": []any{fakeaws.Tree{"StorageClass": "GLACIER_IR", "TransitionInDays": "90"}},
			}}},
		},
		"AggregatorDLQ": {
			"QueueName": "app-aggregator-dlq", "MessageRetentionPeriod": "1209600", "VisibilityTimeout": "300",
		},
		"AggregatorLogGroup":  {"LogGroupName": "/aws/lambda/app-aggregator", "RetentionInDays": "30"},
		"ProvisionerLogGroup": {"LogGroupName": "/aws/lambda/app-limits-provisioner", "RetentionInDays": "30"},
	} {
		if diff := cmp.Diff(want, made[id]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// alarm holds the properties that trigger an alarm.
type alarm struct {
	Name, Metric, Statistic, Comparison, Threshold, Periods string
}

func TestAlarms(t *testing.T) {
	const above, atLeast = "GreaterThanThreshold", "GreaterThanOrEqualToThreshold"
	want := map[string]alarm{
		"AggregatorDLQAlarm": {
			"app-aggregator-dlq-alarm", "AWS/SQS ApproximateNumberOfMessagesVisible AggregatorDLQ.QueueName",
			"Maximum", atLeast, "1", "1",
		},
		"LambdaErrorRateAlarm": {"app-aggregator-error-rate", "100 * errors / invocations", "", above, "1", "2"},
		"LambdaDurationAlarm": {
			"app-aggregator-duration", "AWS/Lambda Duration AggregatorFunction", "Average", above, "48000", "2",
		},
		"StreamIteratorAgeAlarm": {
			"app-stream-iterator-age", "AWS/Lambda IteratorAge AggregatorFunction", "Maximum", above, "30000",
			"2",
		},
		"ProvisionerErrorAlarm": {
			"app-limits-provisioner-errors", "AWS/Lambda Errors ProvisionerFunction", "Sum", atLeast, "1", "1",
		},
		"DynamoDBReadThrottleAlarm": {
			"app-read-throttle", "AWS/DynamoDB ReadThrottleEvents RateLimitsTable", "Sum", above, "1", "2",
		},
		"DynamoDBWriteThrottleAlarm": {
			"app-write-throttle", "AWS/DynamoDB WriteThrottleEvents RateLimitsTable", "Sum", above, "1", "2",
		},
	}
	got := map[string]alarm{}
	doc := template(t)
	made, silent := everything(t, "app").Resources(), fakeaws.NewTemplate(doc, "app", nil).Resources()
	for id, p := range made {
		if fakeaws.Text(fakeaws.Section(doc, "Resources")[id], "Type") != "AWS::CloudWatch::Alarm" {
			continue
		}
		got[id] = alarm{
			fakeaws.Text(p["AlarmName"]), metricOf(p), fakeaws.Text(p["Statistic"]),
			fakeaws.Text(p["ComparisonOperator"]), fakeaws.Text(p["Threshold"]), fakeaws.Text(p["EvaluationPeriods"]),
		}
		if p["TreatMissingData"] != "notBreaching" || fakeaws.Text(p["AlarmDescription"]) == "" {
			t.Errorf("%s: %v, %v", id, p["TreatMissingData"], p["AlarmDescription"])
		}
		if actions := fakeaws.Texts(p["AlarmActions"]); !slices.Equal(actions, []string{"topic"}) {
			t.Errorf("%s has actions %v", id, actions)
		}
		if _, set := silent[id]["AlarmActions"]; set {
			t.Errorf("%s has actions without a topic", id)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Lambda counts a response with failures as a success. The descriptions of the alarms
// do not promise more.
func TestAlarmDescriptions(t *testing.T) {
	made := everything(t, "app").Resources()
	says := func(id string) string { return fakeaws.Text(made[id]["AlarmDescription"]) }
	if late := fakeaws.Text(
		made["StreamIteratorAgeAlarm"]["AlarmName"],
	); !strings.Contains(
		says("LambdaErrorRateAlarm"), "as a whole",
	) || !strings.Contains(says("LambdaErrorRateAlarm"), late) {
		t.Errorf("%s is about records that are retried, not this alarm: %s", late, says("LambdaErrorRateAlarm"))
	}
	if text := says("ProvisionerErrorAlarm"); !strings.Contains(text, "crashed, ran out of time, could not answer") ||
		!strings.Contains(text, "events of that stack") {
		t.Errorf("a failure for CloudFormation is no error: %s", text)
	}
}

// metricOf returns the metric of an alarm, with its period unless that is five
// minutes.
func metricOf(p fakeaws.Tree) string {
	if list, ok := p["Metrics"].([]any); ok {
		return fakeaws.Text(list[0], "Expression")
	}
	metric := fakeaws.Text(p["Namespace"]) + " " + fakeaws.Text(p["MetricName"])
	dimensions, _ := p["Dimensions"].([]any)
	for _, d := range dimensions {
		metric += " " + fakeaws.Text(d, "Value")
	}
	if p["Period"] != "300" {
		return metric + " every " + fakeaws.Text(p["Period"]) + " s"
	}
	return metric
}

// The error rate has errors and invocations of the same function and period.
func TestErrorRate(t *testing.T) {
	list, _ := everything(t, "app").Resources()["LambdaErrorRateAlarm"]["Metrics"].([]any)
	stats := map[string]any{}
	returned := map[string]string{}
	for _, m := range list {
		id := fakeaws.Text(m, "Id")
		returned[id] = fakeaws.Text(m, "ReturnData")
		if s := fakeaws.At(m, "MetricStat"); s != nil {
			stats[id] = s
		}
	}
	sum := func(metric string) fakeaws.Tree {
		return fakeaws.Tree{"Stat": "Sum", "Period": "300", "Metric": fakeaws.Tree{
			"Namespace": "AWS/Lambda", "MetricName": metric,
			"Dimensions": []any{fakeaws.Tree{"Name": "FunctionName", "Value": "AggregatorFunction"}},
		}}
	}
	if diff := cmp.Diff(map[string]any{"errors": sum("Errors"), "invocations": sum("Invocations")}, stats); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := map[string]string{
		"rate": "true", "errors": "false", "invocations": "false",
	}; !maps.Equal(returned, want) {
		t.Errorf("returned: %v, want %v", returned, want)
	}
}
