package infra_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything is a stack with nothing left out.
func everything(tb testing.TB, name string) stack {
	tb.Helper()
	return newStack(ours(tb), name, map[string]string{
		"EnableIAMRoles": "true", "EnableTracing": "true", "CodeBucket": "code", "CodeKey": "key",
		"AlarmSNSTopicArn": "topic", "PermissionBoundary": "edge", "RoleNameFormat": "our-{}", "PITRRecoveryPeriodDays": "7", "EnableDeletionProtection": "true",
	})
}

// The facts of the table. Data that services of both languages share depend on
// keys and indexes, and a stack that is adopted may not change them.
func TestTable(t *testing.T) {
	s := everything(t, "app")
	got := s.resources()["RateLimitsTable"]
	index := func(name, projection string) tree {
		return tree{
			"IndexName": name, "Projection": tree{"ProjectionType": projection},
			"KeySchema": []any{
				tree{"AttributeName": name + "PK", "KeyType": "HASH"},
				tree{"AttributeName": name + "SK", "KeyType": "RANGE"},
			},
		}
	}
	var keys []any
	for name := range strings.FieldsSeq("PK SK GSI1PK GSI1SK GSI2PK GSI2SK GSI3PK GSI3SK GSI4PK GSI4SK") {
		keys = append(keys, tree{"AttributeName": name, "AttributeType": "S"})
	}
	want := tree{
		"TableName": "app", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": keys,
		"KeySchema": []any{
			tree{"AttributeName": "PK", "KeyType": "HASH"},
			tree{"AttributeName": "SK", "KeyType": "RANGE"},
		},
		"GlobalSecondaryIndexes":  []any{index("GSI1", "ALL"), index("GSI2", "ALL"), index("GSI3", "KEYS_ONLY"), index("GSI4", "KEYS_ONLY")},
		"StreamSpecification":     tree{"StreamViewType": "NEW_AND_OLD_IMAGES"},
		"TimeToLiveSpecification": tree{"AttributeName": "ttl", "Enabled": "true"},
		"PointInTimeRecoverySpecification": tree{
			"PointInTimeRecoveryEnabled": "true", "RecoveryPeriodInDays": "7",
		},
		"DeletionProtectionEnabled": "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := newStack(ours(t), "app", nil).resources()["RateLimitsTable"]
	if at(plain, "PointInTimeRecoverySpecification", "RecoveryPeriodInDays") != nil || plain["DeletionProtectionEnabled"] != "false" {
		t.Errorf("with the defaults: %v", plain)
	}
}

func TestFunctions(t *testing.T) {
	made := everything(t, "app").resources()
	for id, want := range map[string]tree{
		"AggregatorFunction": {
			"FunctionName": "app-aggregator", "MemorySize": "256", "Timeout": "60", "Role": "AggregatorRole.Arn",
			"TracingConfig": tree{"Mode": "Active"},
			"Environment": tree{"Variables": tree{
				"ZAE_LIMITER_HANDLER": "aggregator", "TABLE_NAME": "RateLimitsTable", "LOG_LEVEL": "INFO",
				"SNAPSHOT_WINDOWS": "hourly,daily,monthly", "SNAPSHOT_TTL_DAYS": "90", "ZAE_LIMITER_SCHEMA_VERSION": "0.8.0",
				"ENABLE_ARCHIVAL": "true", "ARCHIVE_BUCKET_NAME": "AuditArchiveBucket",
			}},
		},
		"ProvisionerFunction": {
			"FunctionName": "app-limits-provisioner", "MemorySize": "256", "Timeout": "300", "Role": "ProvisionerRole.Arn",
			"Environment": tree{"Variables": tree{
				"ZAE_LIMITER_HANDLER": "provisioner", "TABLE_NAME": "RateLimitsTable", "LOG_LEVEL": "INFO",
			}},
		},
	} {
		maps.Copy(want, tree{
			"Runtime": "provided.al2023", "Handler": "bootstrap", "Architectures": []any{"arm64"},
			"Code": tree{"S3Bucket": "code", "S3Key": "key"},
		})
		got := maps.Clone(made[id])
		delete(got, "Description")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	bare := newStack(ours(t), "app", map[string]string{
		"EnableAuditArchival": "false", "AggregatorRoleArn": "theirs", "ProvisionerRoleArn": "theirs too", "Architecture": "x86_64",
	}).resources()
	for path, want := range map[string]string{
		"AggregatorFunction Environment Variables ENABLE_ARCHIVAL":     "false",
		"AggregatorFunction Environment Variables ARCHIVE_BUCKET_NAME": "",
		"AggregatorFunction TracingConfig Mode":                        "PassThrough",
		"AggregatorFunction Role":                                      "theirs",
		"ProvisionerFunction Role":                                     "theirs too",
	} {
		words := strings.Fields(path)
		if got := at(bare[words[0]], words[1:]...); got != want {
			t.Errorf("%s is %v, want %q", path, got, want)
		}
	}
	if got := texts(bare["AggregatorFunction"]["Architectures"]); !slices.Equal(got, []string{"x86_64"}) {
		t.Errorf("architectures %v", got)
	}
}

func TestStreamIsReadWithoutLoss(t *testing.T) {
	s := everything(t, "app")
	got := s.resources()["AggregatorEventSourceMapping"]
	filters, _ := at(got, "FilterCriteria", "Filters").([]any)
	var patterns []any
	for _, f := range filters {
		var pattern any
		if err := json.Unmarshal([]byte(text(at(f, "Pattern"))), &pattern); err != nil {
			t.Error(err)
		}
		patterns = append(patterns, pattern)
	}
	image := func(name, prefix string) tree {
		return tree{name: tree{"SK": tree{"S": []any{tree{"prefix": prefix}}}}}
	}
	if diff := cmp.Diff([]any{
		tree{"eventName": []any{"INSERT", "MODIFY"}, "dynamodb": image("NewImage", "#BUCKET#")},
		tree{"eventName": []any{"REMOVE"}, "dynamodb": image("OldImage", "#AUDIT#")},
	}, patterns); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	delete(got, "FilterCriteria")
	if diff := cmp.Diff(tree{
		"EventSourceArn": "RateLimitsTable.StreamArn", "FunctionName": "AggregatorFunction", "StartingPosition": "TRIM_HORIZON",
		"BatchSize": "100", "MaximumBatchingWindowInSeconds": "1", "MaximumRetryAttempts": "-1", "MaximumRecordAgeInSeconds": "3600",
		"BisectBatchOnFunctionError": "true", "FunctionResponseTypes": []any{"ReportBatchItemFailures"},
		"DestinationConfig": tree{"OnFailure": tree{"Destination": "AggregatorDLQ.Arn"}},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What is older than 3600 seconds is given up, wherever reading begins.
	if says := text(at(section(s.doc, "Parameters")["StreamStartingPosition"], "Description")); !strings.Contains(says, "up to an hour") {
		t.Errorf("the position promises more than is counted: %s", says)
	}
}

// What holds data says what becomes of it, and the archive outlives the stack.
func TestWhatBecomesOfData(t *testing.T) {
	resources := section(ours(t), "Resources")
	for id, want := range map[string][2]string{
		"RateLimitsTable":     {"Delete", "Retain"},
		"AuditArchiveBucket":  {"RetainExceptOnCreate", "Retain"},
		"AggregatorDLQ":       {"Delete", "Delete"},
		"AggregatorLogGroup":  {"Delete", "Delete"},
		"ProvisionerLogGroup": {"Delete", "Delete"},
	} {
		if got := [2]string{text(at(resources[id], "DeletionPolicy")), text(at(resources[id], "UpdateReplacePolicy"))}; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	made := everything(t, "app").resources()
	for id, want := range map[string]tree{
		"AuditArchiveBucket": {
			"BucketEncryption": tree{"ServerSideEncryptionConfiguration": []any{
				tree{"ServerSideEncryptionByDefault": tree{"SSEAlgorithm": "AES256"}},
			}},
			"PublicAccessBlockConfiguration": tree{
				"BlockPublicAcls": "true", "BlockPublicPolicy": "true", "IgnorePublicAcls": "true", "RestrictPublicBuckets": "true",
			},
			"LifecycleConfiguration": tree{"Rules": []any{tree{
				"Id": "cheaper-storage", "Status": "Enabled",
				"Transitions": []any{tree{"StorageClass": "GLACIER_IR", "TransitionInDays": "90"}},
			}}},
		},
		"AggregatorDLQ":       {"QueueName": "app-aggregator-dlq", "MessageRetentionPeriod": "1209600", "VisibilityTimeout": "300"},
		"AggregatorLogGroup":  {"LogGroupName": "/aws/lambda/app-aggregator", "RetentionInDays": "30"},
		"ProvisionerLogGroup": {"LogGroupName": "/aws/lambda/app-limits-provisioner", "RetentionInDays": "30"},
	} {
		if diff := cmp.Diff(want, made[id]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}
