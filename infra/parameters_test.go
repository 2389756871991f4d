package infra_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDefaultsFollowTheirOwnRules(t *testing.T) {
	for name, p := range section(ours(t), "Parameters") {
		def := text(at(p, "Default"))
		if allowed := texts(at(p, "AllowedValues")); len(allowed) > 0 && !slices.Contains(allowed, def) {
			t.Errorf("%s: %q is not allowed", name, def)
		}
		if pattern := text(at(p, "AllowedPattern")); pattern != "" && !regexp.MustCompile(pattern).MatchString(def) {
			t.Errorf("%s: %q does not match", name, def)
		}
		if text(at(p, "Description")) == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func TestPatternsOfParameters(t *testing.T) {
	parameters := section(ours(t), "Parameters")
	for _, test := range []struct {
		name      string
		good, bad []string
	}{
		{"SnapshotWindows", []string{"hourly", "daily,monthly", "hourly, daily, monthly"}, []string{"", "weekly", "hourly,", "hourly daily"}},
		{"PITRRecoveryPeriodDays", []string{"1", "9", "10", "35"}, []string{"0", "36", "07", "x"}},
		{"AggregatorRoleArn", []string{"arn:aws:iam::123456789012:role/a/b", "arn:aws-cn:iam::123456789012:role/a", "arn:aws-iso-b:iam::123456789012:role/a"}, []string{"a", "arn:awsome:iam::123456789012:role/a", "arn:aws-:iam::123456789012:role/a", "arn:aws:iam::1:role/a", "arn:aws:iam::123456789012:user/a"}},
		{"ProvisionerRoleArn", []string{"arn:aws-us-gov:iam::123456789012:role/a", "arn:aws-eusc:iam::123456789012:role/a"}, []string{"role/a"}},
		{"AlarmSNSTopicArn", []string{"arn:aws:sns:eu-west-1:123456789012:t"}, []string{"t", "arn:aws:sqs:eu-west-1:123456789012:t"}},
		{"AppRoleName", []string{"a-b_c+=,.@-"}, []string{"a b", "a/b", strings.Repeat("a", 65)}},
		{"AcquireOnlyPolicyName", []string{strings.Repeat("a", 128)}, []string{"a*", strings.Repeat("a", 129)}},
	} {
		pattern := regexp.MustCompile(text(at(parameters[test.name], "AllowedPattern")))
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

// Where the values of parameters end up that are not about what is made, or how
// it is called.
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
		s.values[name] = "chosen"
		var found []string
		for id, properties := range s.resources() {
			found = append(found, places(properties, id, "chosen")...)
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// places are the paths to leaves of that value.
func places(v any, path, value string) (all []string) {
	switch v := v.(type) {
	case string:
		if v == value {
			all = append(all, path)
		}
	case []any:
		for i, e := range v {
			all = append(all, places(e, fmt.Sprint(path, ".", i), value)...)
		}
	case tree:
		for name, e := range v {
			all = append(all, places(e, path+"."+name, value)...)
		}
	}
	return all
}
