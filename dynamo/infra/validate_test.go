package infra_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

const anyName = "my-app"

// validate returns the problem of a stack, or nil.
func validate(t *testing.T, name string, s infra.Stack) *limiter.InvalidError {
	t.Helper()
	err := s.Validate(name)
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if bad.Reason == "" || strings.Contains(bad.Reason, "\n") {
		t.Errorf("%q is not a sentence", bad.Reason)
	}
	return bad
}

// refuses checks that a field is invalid, and the text of the error.
func refuses(t *testing.T, s infra.Stack, field string, says ...string) {
	t.Helper()
	bad := validate(t, anyName, s)
	if bad == nil {
		t.Errorf("%+v is accepted, though its %s is invalid", s, field)
		return
	}
	if bad.Field != field {
		t.Errorf("%v is about %q, not %q", bad, bad.Field, field)
	}
	for _, part := range says {
		if !strings.Contains(bad.Error(), part) {
			t.Errorf("%q does not contain %q", bad, part)
		}
	}
}

// accepts checks that all stacks are valid.
func accepts(t *testing.T, all ...infra.Stack) {
	t.Helper()
	for _, s := range all {
		if bad := validate(t, anyName, s); bad != nil {
			t.Errorf("%+v: %v", s, bad)
		}
	}
}

func TestNamesOfStacks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"limiter", "A-1", "a--b-", "ZAEL-old", "abc"} {
		if bad := validate(t, name, infra.Stack{}); bad != nil {
			t.Error(bad)
		}
	}
	for name, says := range map[string]string{
		"": "empty", "my_app": "underscore", "my.app": "dot", "my app": "space", "1st": "letter", "-a": "letter",
		"ab": "3", "äöü": "letter", "a\nb": "letter",
	} {
		bad := validate(t, name, infra.Stack{})
		if bad == nil || bad.Field != "name" || !strings.Contains(bad.Reason, says) {
			t.Errorf("%q: %v does not say %q", name, bad, says)
		}
	}
}

func TestNamesLeaveRoomForFunctions(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/r"
	for _, c := range []struct {
		stack   infra.Stack
		longest int
	}{
		{infra.Stack{}, 45},
		{infra.Stack{NoProvisioner: true}, 53},
		{infra.Stack{NoAggregator: true}, 45},
		{infra.Stack{NoAggregator: true, NoProvisioner: true}, 55},
		{infra.Stack{NoIAM: true}, 55},
		{infra.Stack{NoIAM: true, AggregatorRoleARN: role}, 53},
		{infra.Stack{NoIAM: true, ProvisionerRoleARN: role}, 45},
	} {
		if bad := validate(t, strings.Repeat("a", c.longest), c.stack); bad != nil {
			t.Errorf("%+v: %v", c.stack, bad)
		}
		bad := validate(t, strings.Repeat("a", c.longest+1), c.stack)
		if bad == nil || bad.Field != "name" || !strings.Contains(bad.Reason, fmt.Sprint(c.longest)) {
			t.Errorf("%+v: %v does not say %d", c.stack, bad, c.longest)
		}
	}
}

func TestNumbersOfStacks(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]struct {
		with        func(*infra.Stack, int)
		least, most int
		optional    bool
	}{
		"usage retention days": {func(s *infra.Stack, n int) { s.UsageRetentionDays = n }, 1, 3650, true},
		"audit retention days": {func(s *infra.Stack, n int) { s.AuditRetentionDays = n }, 1, 1<<31 - 1, true},
		"recovery days":        {func(s *infra.Stack, n int) { s.PITRRecoveryDays = n }, 1, 35, true},
		"function memory":      {func(s *infra.Stack, n int) { s.LambdaMemory = n }, 128, 3008, true},
		"days until Glacier":   {func(s *infra.Stack, n int) { s.ArchiveGlacierDays = n }, 1, 3650, true},
		"duration threshold":   {func(s *infra.Stack, n int) { s.DurationThresholdPct = n }, 1, 100, true},
		"function timeout": {func(s *infra.Stack, n int) {
			s.LambdaTimeout = time.Duration(n) * time.Second
		}, 1, 900, true},
		"log retention days": {func(s *infra.Stack, n int) { s.LogRetentionDays = n }, 1, 3653, true},
	} {
		stack := func(n int) (s infra.Stack) { set.with(&s, n); return s }
		accepts(t, stack(set.least), stack(set.most), stack(0))
		refuses(t, stack(-1), field)
		refuses(t, stack(set.most+1), field)
		if set.least > 1 {
			refuses(t, stack(set.least-1), field)
		}
	}
	refuses(t, infra.Stack{LogRetentionDays: 31}, "log retention days", "30 60")
	refuses(t, infra.Stack{LambdaTimeout: 1500 * time.Millisecond}, "function timeout", "whole seconds")
	refuses(t, infra.Stack{LogLevel: "info"}, "log level", "INFO")
	accepts(t, infra.Stack{LogLevel: "WARN"})
	refuses(t, infra.Stack{ResourceIndex: "keys"}, "resource index", "must be full or lean")
	accepts(t, infra.Stack{ResourceIndex: infra.FullIndex})
	accepts(t, infra.Stack{ResourceIndex: infra.LeanIndex})
	refuses(t, infra.Stack{Architecture: "amd64"}, "architecture", "arm64", "x86_64")
	accepts(t, infra.Stack{Architecture: infra.X8664})
}

func TestWindowsOfStacks(t *testing.T) {
	t.Parallel()
	accepts(t, infra.Stack{SnapshotWindows: "monthly"}, infra.Stack{SnapshotWindows: "daily,hourly,monthly"})
	for _, windows := range []string{",", "hourly,", "yearly", "hourly,hourly", "hourly, daily"} {
		refuses(t, infra.Stack{SnapshotWindows: windows}, "snapshot windows", "hourly,daily")
	}
}

func TestRolesNeedIAM(t *testing.T) {
	t.Parallel()
	refuses(t, infra.Stack{NoIAM: true, IAMRoles: true}, "IAM roles")
	accepts(t, infra.Stack{NoIAM: true}, infra.Stack{IAMRoles: true})
}

func TestARNsOfStacks(t *testing.T) {
	t.Parallel()
	for _, arn := range []string{
		"arn:aws:iam::123456789012:role/r", "arn:aws-cn:iam::123456789012:role/a/b/c",
		"arn:aws-us-gov:iam::123456789012:role/r+=,.@_-9",
	} {
		accepts(t, infra.Stack{AggregatorRoleARN: arn}, infra.Stack{ProvisionerRoleARN: arn})
	}
	for _, arn := range []string{
		"r", "arn:aws:iam::12345678901:role/r", "arn:aws:iam::12345678901x:role/r",
		"arn:aws:iam::123456789012:role/", "arn:aws:iam::123456789012:user/r",
		"arn:azure:iam::123456789012:role/r", "arn:aws:sts::123456789012:role/r",
		"arn:aws:iam:us-east-1:123456789012:role/r", "arn:aws:iam::123456789012:role/r ",
		"arn:aws:iam::123456789012:role/a//b", "arn:aws:iam::123456789012:role/" + strings.Repeat("r", 65),
	} {
		refuses(t, infra.Stack{AggregatorRoleARN: arn}, "aggregator role ARN", "arn:aws:iam::123456789012:role/")
		refuses(t, infra.Stack{ProvisionerRoleARN: arn}, "provisioner role ARN")
	}
	accepts(t, infra.Stack{AlarmTopicARN: "arn:aws:sns:eu-west-1:123456789012:my_topic-1"})
	for _, arn := range []string{
		"my-topic", "arn:aws:sns:eu-west-1:123456789012:", "arn:aws:sns::123456789012:t",
		"arn:aws:sqs:eu-west-1:123456789012:t", "arn:aws:sns:eu-west-1:1:t",
		"arn:aws:sns:eu-west-1:123456789012:a:b",
	} {
		refuses(t, infra.Stack{AlarmTopicARN: arn}, "alarm topic ARN", "arn:aws:sns:")
	}
	for _, boundary := range []string{
		"my-boundary", "team/boundary", "arn:aws:iam::123456789012:policy/p",
		"arn:aws:iam::aws:policy/PowerUserAccess",
	} {
		accepts(t, infra.Stack{PermissionBoundary: boundary})
	}
	for _, boundary := range []string{
		"my boundary", "/p", "p/", "a//b", strings.Repeat("p", 129), "arn:aws:iam::123456789012:role/p", "arn:",
	} {
		refuses(t, infra.Stack{PermissionBoundary: boundary}, "permission boundary", "policy")
	}
}

func TestNameFormats(t *testing.T) {
	t.Parallel()
	for field, with := range map[string]func(string) infra.Stack{
		"role name format":   func(f string) infra.Stack { return infra.Stack{RoleNameFormat: f} },
		"policy name format": func(f string) infra.Stack { return infra.Stack{PolicyNameFormat: f} },
	} {
		accepts(t, with("{}"), with("pre-{}-post"), with("+=,.@_{}"))
		for _, format := range []string{"x", "{}{}", "{} x", "a/{}", "ä{}", "{x}"} {
			refuses(t, with(format), field, "{}")
		}
	}
	refuses(t, infra.Stack{RoleNameFormat: strings.Repeat("a", 54) + "{}"}, "role name format", "55")
	refuses(t, infra.Stack{PolicyNameFormat: strings.Repeat("a", 119) + "{}"}, "policy name format", "120")
}

func TestNamesThatFormatsGiveMayBeTooLong(t *testing.T) {
	t.Parallel()
	roles := infra.Stack{RoleNameFormat: strings.Repeat("a", 50) + "{}"} // 50 + 9 + 5 of "my-app-aggr"
	accepts(t, roles)
	roles.IAMRoles = true // "my-app-admin"
	accepts(t, roles)
	roles.RoleNameFormat += "bbb"
	refuses(t, roles, "role name format", "the maximum of 64 characters by 1", "at most 5 characters would fit",
		"admin")
	roles.NoIAM, roles.IAMRoles = true, false
	accepts(t, roles)
	refuses(t,
		infra.Stack{
			RoleNameFormat: strings.Repeat("a", 53) + "{}", IAMRoles: true, NoAggregator: true,
			NoProvisioner: true,
		},
		"role name format", "at most 5 characters would fit")
	policies := infra.Stack{PolicyNameFormat: strings.Repeat("a", 114) + "{}"}
	accepts(t, policies)
	policies.PolicyNameFormat += "b"
	refuses(t, policies, "policy name format", "the maximum of 128 characters by 1", "ns-full",
		"at most 5 characters would fit")
	policies.PolicyNameFormat += "bbb"
	refuses(t, policies, "policy name format", "no stack name would fit")
}

func TestBucketNamesOfStacks(t *testing.T) {
	t.Parallel()
	accepts(t, infra.Stack{ArtifactBucket: "a.b-3"}, infra.Stack{ArtifactBucket: strings.Repeat("a", 63)})
	for _, name := range []string{
		"ab", "-abc", "abc-", ".abc", "Abc", "a_b", "a..b", "a.-b", "192.168.1.1", strings.Repeat("a", 64),
	} {
		refuses(t, infra.Stack{ArtifactBucket: name}, "artifact bucket", "63")
	}
}

func TestTagsOfStacks(t *testing.T) {
	t.Parallel()
	tags := func(n int) infra.Stack {
		// tags of zae-limiter do not count
		s := infra.Stack{Tags: map[string]string{"ManagedBy": "me", "zae-limiter:name": "mine"}}
		for i := range n {
			s.Tags[fmt.Sprintf("key-%d", i)] = "value"
		}
		return s
	}
	one := func(key, value string) infra.Stack { return infra.Stack{Tags: map[string]string{key: value}} }
	accepts(t, tags(44), one(strings.Repeat("k", 128), strings.Repeat("ö", 256)), one("a b_.:/=+-@", "a b_.:/=+-@"))
	refuses(t, tags(45), "tags", "44", "45")
	for says, s := range map[string]infra.Stack{
		"a key": one("", "v"), "128": one(strings.Repeat("k", 129), "v"), "aws:": one("AWS:x", "v"),
		"a value": one("k", ""), "256": one("k", strings.Repeat("v", 257)), "digits": one("k", "a\tb"),
		"ManagedBy in more": one("managedby", "v"), "Team in more": {Tags: map[string]string{"Team": "a", "team": "b"}},
	} {
		refuses(t, s, "tag", says)
	}
}
