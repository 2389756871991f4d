package infra

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/google/go-cmp/cmp"
)

// values returns the values of parameters, with * for one that keeps its value.
func values(list []cfn.Parameter) map[string]string {
	all := map[string]string{}
	for _, p := range list {
		if _, twice := all[aws.ToString(p.ParameterKey)]; twice {
			panic("duplicate parameter: " + aws.ToString(p.ParameterKey))
		}
		all[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
		if aws.ToBool(p.UsePreviousValue) {
			all[aws.ToString(p.ParameterKey)] = "*"
		}
	}
	return all
}

var plainParameters = map[string]string{
	"SchemaVersion": "0.8.0", "SnapshotWindows": "hourly,daily,monthly", "SnapshotRetentionDays": "90",
	"LambdaMemorySize": "256", "LambdaTimeout": "60",
	"EnableAggregator": "true", "EnableAlarms": "true", "LogLevel": "INFO", "LogRetentionDays": "30",
	"LambdaDurationThreshold": "48000", "EnableAuditArchival": "true",
	"AuditArchiveGlacierTransitionDays": "90", "EnableTracing": "false", "EnableIAMRoles": "false",
	"EnableIAM": "true", "EnableProvisioner": "true",
	"EnableDeletionProtection": "false", "EnableLeanIndex": "false", "Architecture": "arm64",
}

func TestParametersOfTheZeroStack(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(plainParameters, values(cfnParameters(Stack{}.parameters("app", object{})))); diff != "" {
		t.Error(diff)
	}
}

func TestParametersOfAStackWithEverything(t *testing.T) {
	t.Parallel()
	s := Stack{
		SnapshotWindows: "monthly", UsageRetentionDays: 1, AuditRetentionDays: 2, PITRRecoveryDays: 3,
		DeletionProtection: true, ResourceIndex: LeanIndex,
		NoAggregator: true, NoProvisioner: true, Architecture: X8664, LambdaTimeout: 7 * time.Second,
		LambdaMemory: 128, Tracing: true, LogLevel: "DEBUG", LogRetentionDays: 5,
		NoAuditArchive: true, ArchiveGlacierDays: 6, NoAlarms: true, AlarmTopicARN: "topic", DurationThresholdPct: 33,
		IAMRoles: true, PermissionBoundary: "b", RoleNameFormat: "r-{}", PolicyNameFormat: "{}-p",
		ArtifactBucket: "not a parameter", Tags: map[string]string{"neither": "is this"},
	}
	want := map[string]string{
		"SchemaVersion": "0.8.0", "SnapshotWindows": "monthly", "SnapshotRetentionDays": "1",
		"LambdaMemorySize": "128", "LambdaTimeout": "7",
		"EnableAggregator": "false", "PITRRecoveryPeriodDays": "3", "EnableAlarms": "false",
		"AlarmSNSTopicArn": "topic", "LogLevel": "DEBUG", "LogRetentionDays": "5",
		"LambdaDurationThreshold": "2310", "PermissionBoundary": "b", "EnableAuditArchival": "false",
		"AuditArchiveGlacierTransitionDays": "6",
		"EnableTracing":                     "true", "EnableIAMRoles": "true", "EnableIAM": "true",
		"EnableProvisioner":        "false",
		"EnableDeletionProtection": "true", "EnableLeanIndex": "true", "Architecture": "x86_64",
		"CodeBucket": "bucket", "CodeKey": "key",
		"RoleNameFormat": "r-{}", "AggregatorRoleName": "r-app-aggr", "ProvisionerRoleName": "r-app-prov",
		"AppRoleName": "r-app-app", "AdminRoleName": "r-app-admin",
		"ReadOnlyRoleName":      "r-app-read",
		"AcquireOnlyPolicyName": "app-acq-p", "FullAccessPolicyName": "app-full-p", "ReadOnlyPolicyName": "app-read-p",
		"NamespaceAcquirePolicyName": "app-ns-acq-p", "NamespaceFullAccessPolicyName": "app-ns-full-p",
		"NamespaceReadOnlyPolicyName": "app-ns-read-p",
	}
	got := values(cfnParameters(s.parameters("app", object{"bucket", "key"})))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.NoIAM, s.IAMRoles, s.AggregatorRoleARN, s.ProvisionerRoleARN = true, false, "a", "p"
	got = values(cfnParameters(s.parameters("app", object{"bucket", "key"})))
	if got["AggregatorRoleArn"] != "a" || got["ProvisionerRoleArn"] != "p" || got["EnableIAM"] != "false" {
		t.Error(got)
	}
	s.RoleNameFormat = strings.Repeat("r", 54) + "{}" // some names are too long
	got = values(cfnParameters(s.parameters("app", object{"bucket", "key"})))
	if got["AppRoleName"] != strings.Repeat("r", 54)+"app-app" ||
		got["AggregatorRoleName"] != strings.Repeat("r", 54)+"app-aggr" || len(got["AdminRoleName"]) != 63 {
		t.Error(got)
	}
	got = values(cfnParameters(s.parameters("apps", object{"bucket", "key"})))
	if got["AdminRoleName"] == "" || values(cfnParameters(s.parameters("apple", object{})))["AdminRoleName"] != "" {
		t.Error(got)
	}
	// depends on the deployed stack
	all := append(slices.Sorted(maps.Keys(want)), "AggregatorRoleArn", "ProvisionerRoleArn", "StreamStartingPosition")
	slices.Sort(all)
	if diff := cmp.Diff(all, slices.Sorted(slices.Values(parameterNames()))); diff != "" {
		t.Error(diff)
	}
}

// Settings survive a round trip through the parameters of a stack.
func TestStackOf(t *testing.T) {
	t.Parallel()
	everything := Stack{
		SnapshotWindows: "monthly", UsageRetentionDays: 1, PITRRecoveryDays: 3, DeletionProtection: true,
		ResourceIndex: LeanIndex,
		NoAggregator:  true, NoProvisioner: true, Architecture: X8664, LambdaTimeout: 7 * time.Second,
		LambdaMemory: 128, Tracing: true, LogLevel: "DEBUG", LogRetentionDays: 5,
		NoAuditArchive: true, ArchiveGlacierDays: 6, NoAlarms: true, AlarmTopicARN: "topic", DurationThresholdPct: 33,
		IAMRoles: true, AggregatorRoleARN: "a", ProvisionerRoleARN: "p", PermissionBoundary: "b",
		RoleNameFormat: "r-{}", PolicyNameFormat: "{}-p",
		Tags: map[string]string{"team": "a"},
	}
	for _, s := range []Stack{{Tags: map[string]string{}}, {Tags: map[string]string{}, NoIAM: true}, everything} {
		before := s.parameters("app", object{"bucket", "key"})
		stack := &cfn.Stack{
			Parameters: cfnParameters(before),
			Tags: cfnTags(mergeTags(s.Tags, (&session{target: "app", kind: typeLimiter}).discoveryTags(),
				versionTags("1.2.3"))),
		}
		stack.Tags = append(stack.Tags, cfn.Tag{Key: aws.String("aws:owner"), Value: aws.String("service")})
		again := stackOf(stack)
		if diff := cmp.Diff(
			values(cfnParameters(before)),
			values(cfnParameters(again.parameters("app", object{"bucket", "key"}))),
		); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(s.Tags, again.Tags); diff != "" {
			t.Error(diff)
		}
	}
}

// A threshold that is no whole percentage is kept until a setting changes it.
func TestDeployedKeepsTheThreshold(t *testing.T) {
	t.Parallel()
	stack := &cfn.Stack{Parameters: cfnParameters([]parameter{
		{"LambdaTimeout", "60"}, {"LambdaDurationThreshold", "50000"},
	})}
	for want, change := range map[string]func(*Stack){
		"50000": func(*Stack) {},
		"24900": func(s *Stack) { s.LambdaTimeout = 30 * time.Second },
		"30000": func(s *Stack) { s.DurationThresholdPct = 50 },
	} {
		s := stackOf(stack)
		change(&s)
		if got := values(cfnParameters(s.parameters("app", object{})))["LambdaDurationThreshold"]; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Names without a format are kept until there is a format.
func TestDeployedKeepsNames(t *testing.T) {
	t.Parallel()
	stack := &cfn.Stack{Parameters: cfnParameters([]parameter{
		{"AppRoleName", "mine"}, {"FullAccessPolicyName", "all"},
	})}
	s := stackOf(stack)
	s.RoleNameFormat, s.IAMRoles = "r-{}", true
	got := values(cfnParameters(s.parameters("app", object{})))
	if got["AppRoleName"] != "r-app-app" || got["FullAccessPolicyName"] != "all" {
		t.Error(got)
	}
}

func TestParametersAreThoseOfTheTemplate(t *testing.T) {
	t.Parallel()
	_, parameters, _ := strings.Cut(string(Template()), "\nParameters:\n")
	parameters, _, ok := strings.Cut(parameters, "\nRules:\n")
	if !ok {
		t.Fatal("the template has no such sections")
	}
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^  (\w+):$`).FindAllStringSubmatch(parameters, -1) {
		names = append(names, line[1])
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(slices.Values(parameterNames()))); diff != "" {
		t.Error(diff)
	}
}

func TestTheTemplateCanBeSent(t *testing.T) {
	t.Parallel()
	const maxTemplate = 51_200
	if n := len(Template()); n > maxTemplate {
		t.Errorf("the template has %d bytes, of %d", n, maxTemplate)
	}
}

// Floating-point arithmetic would get some of these wrong.
func TestTheDurationThresholdIsAWholeNumber(t *testing.T) {
	t.Parallel()
	for seconds := 1; seconds <= 900; seconds++ {
		for pct := 1; pct <= 100; pct++ {
			s := Stack{LambdaTimeout: time.Duration(seconds) * time.Second, DurationThresholdPct: pct}
			if got, want := s.durationThreshold(), int64(seconds*10*pct); got != want {
				t.Fatalf("%d s, %d %%: %d, want %d", seconds, pct, got, want)
			}
		}
	}
}

func TestKeptParametersAreAllSent(t *testing.T) {
	t.Parallel()
	stack := cfn.Stack{}
	for _, key := range []string{"EnableIAMRoles", "CodeKey", "OfAnotherTemplate"} {
		stack.Parameters = append(stack.Parameters, cfn.Parameter{
			ParameterKey: aws.String(key), ParameterValue: aws.String("x"),
		})
	}
	if diff := cmp.Diff(
		map[string]string{"EnableIAMRoles": "*", "CodeKey": "*", "OfAnotherTemplate": "*"},
		values(previousParameters(stack, nil)),
	); diff != "" {
		t.Error(diff)
	}
	changed := []parameter{{"CodeKey", "new"}, {"CodeBucket", ""}}
	got := values(previousParameters(stack, parameterNames(), changed...))
	if diff := cmp.Diff(
		map[string]string{"EnableIAMRoles": "*", "CodeKey": "new", "StreamStartingPosition": "LATEST"}, got,
	); diff != "" {
		t.Error(diff)
	}
	stack.Parameters = append(stack.Parameters, cfn.Parameter{
		ParameterKey: aws.String("StreamStartingPosition"), ParameterValue: aws.String("TRIM_HORIZON"),
	})
	if got := values(previousParameters(stack, parameterNames())); got["StreamStartingPosition"] != "*" {
		t.Error(got)
	}
}

func TestTagsThatAreSent(t *testing.T) {
	t.Parallel()
	got := mergeTags(map[string]string{"team": "a", "ManagedBy": "me"},
		(&session{target: "ZAEL-app", kind: typeLimiter}).discoveryTags(), versionTags("1.2.3"))
	want := map[string]string{
		"team": "a", "ManagedBy": "zae-limiter", "zae-limiter:name": "app", "zae-limiter:type": "limiter",
		"zae-limiter:version": "1.2.3", "zae-limiter:schema-version": "0.8.0", "zae-limiter:lambda-version": "1.2.3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(want) - 1 + maxTags; n != 50 {
		t.Errorf("a stack may have 50 tags, not %d", n)
	}
}

func TestNamesOfArtifactBuckets(t *testing.T) {
	t.Parallel()
	const account = "123456789012"
	long := "a-name-of-a-stack-that-is-as-long-as-it-may-be"
	for _, c := range []struct{ stack, region, want string }{
		{"app", "us-east-1", "app-artifacts-123456789012-us-east-1"},
		{
			"a2345678901234567890123456789b", "us-east-1",
			"a2345678901234567890123456789b-artifacts-123456789012-us-east-1",
		},
		{"App", "us-east-1", "app-0d04bfeb-artifacts-123456789012-us-east-1"},
		{long, "us-east-1", "a-name-of-a-stack-tha-de31eca0-artifacts-123456789012-us-east-1"},
	} {
		if got := artifactBucket(c.stack, account, c.region); got != c.want {
			t.Errorf("%s: %s, want %s", c.stack, got, c.want)
		}
	}
	seen := map[string]string{}
	for _, stack := range []string{"app", "App", "aPp", long, long + "x", long[:20], "Z", "zz--"} {
		for _, region := range []string{"us-east-1", "ap-southeast-2", "us-gov-west-1", "a-region-longer-than-any"} {
			name := artifactBucket(stack, account, region)
			if err := checkBucketName(name); err != nil {
				t.Errorf("%s: %v", stack, err)
			}
			if other := seen[name]; other != "" {
				t.Errorf("%s and %s share %s", stack, other, name)
			}
			seen[name] = stack
		}
	}
}

func TestOrderOfVersions(t *testing.T) {
	t.Parallel()
	rising := []string{
		"0.0.0-20260102030405-abcdef012345", "0.1.0-rc1", "0.1.0", "v0.1.1+dirty", "0.10.0", "1.0.0-a",
		"1.0.0-b", "1.0.0-rc.9", "1.0.0-rc.10", "1.0.0", "2.0.0",
	}
	for i, a := range rising {
		for j, b := range rising {
			if got := canReplace(a, b); got != (i >= j) {
				t.Errorf("%s after %s: %t", a, b, got)
			}
		}
	}
	for _, none := range []string{"", "devel", "1.2.3.4", "a.b.c", "1.-2.3", "0123abc"} {
		if canReplace(none, "1.0.0") || !canReplace("1.0.0", none) || !canReplace(none, none) {
			t.Errorf("%q is taken for a release", none)
		}
	}
}
