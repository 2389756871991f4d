package infra_test

import (
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
		{"AggregatorRoleArn", []string{"arn:aws:iam::123456789012:role/a/b", "arn:aws-cn:iam::123456789012:role/a"}, []string{"a", "arn:aws:iam::1:role/a", "arn:aws:iam::123456789012:user/a"}},
		{"ProvisionerRoleArn", []string{"arn:aws-us-gov:iam::123456789012:role/a"}, []string{"role/a"}},
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
