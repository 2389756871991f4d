package infra_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
)

// pythonStack is one that Python's tool made, and its table.
func pythonStack(t *testing.T, c *cloud, name string) *cloudStack {
	t.Helper()
	s := c.put(name, "UPDATE_COMPLETE", with(managedTags(name), map[string]string{"zae-limiter:version": "9.9.9", "zae-limiter:lambda-version": "9.9.9", "owner": "ops"}))
	s.template, s.parameters = "python", map[string]string{
		"SchemaVersion": "0.8.0", "EnableAggregator": "true", "EnableIAM": "true", "EnableIAMRoles": "true", "RoleNameFormat": "x-{}", "LambdaMemorySize": "512", "Forgotten": "x",
	}
	s.resources[tableID] = name
	c.happened(s, "", "UPDATE_COMPLETE", "")
	c.makeTable(name)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.8.0"), "client_min_version": textValue("0.0.0"),
		"lambda_version": textValue("0.9.0"), "updated_by": textValue("cli:0.9.0"), "updated_at": textValue("2025-01-02T03:04:05Z"),
	})
	return s
}

func textValue(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func store(t *testing.T, c *cloud, table string, item map[string]types.AttributeValue) {
	t.Helper()
	_, err := dynamodb.NewFromConfig(*config(c.engine)).PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &table, Item: item})
	must(t, err)
}

func TestUpgradeKeepsParametersAndTags(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack = infra.Stack{LambdaMemory: 512, RoleNameFormat: "x-{}", Tags: map[string]string{"owner": "ops"}}
	deploy(t, name, opts)
	s := c.find(name)
	before := maps.Clone(s.parameters)
	upgrade := infra.UpgradeOptions{Options: c.options()}
	upgrade.Options.Version, upgrade.Options.Zip = "1.3.0", functionZip(t, 1)
	d, err := infra.Upgrade(t.Context(), name, &upgrade)
	must(t, err)
	if d.Action != "updated" || !d.Code.Uploaded || !d.Complete || len(d.Migrated) > 0 {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff(with(before, map[string]string{"CodeKey": d.Code.Key}), s.parameters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(with(managedTags(name), map[string]string{"owner": "ops", "zae-limiter:version": "1.3.0", "zae-limiter:lambda-version": "1.3.0"}), s.tags); diff != "" {
		t.Error(diff)
	}
	prepared(t, c, name, "cli:1.3.0")
	d, err = infra.Upgrade(t.Context(), name, &upgrade)
	must(t, err)
	if d.Action != "unchanged" || d.Code.Uploaded {
		t.Errorf("%+v", d)
	}
}

func TestUpgradeTakesOverAStackOfPython(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	opts := infra.UpgradeOptions{Options: c.options(), LambdaOnly: true}
	_, err := infra.Upgrade(t.Context(), name, &opts)
	wants[*infra.RefusedError](t, err, "Python", "all of it")
	opts.LambdaOnly = false
	d, err := infra.Upgrade(t.Context(), name, &opts) // though its version is a higher number
	must(t, err)
	want := map[string]string{
		"SchemaVersion": "0.8.0", "EnableAggregator": "true", "EnableIAM": "true", "EnableIAMRoles": "true", "RoleNameFormat": "x-{}", "LambdaMemorySize": "512",
		"CodeBucket": ownBucketOf(name), "CodeKey": d.Code.Key, "Architecture": "arm64", "StreamStartingPosition": "LATEST",
	}
	if diff := cmp.Diff(with(defaults(string(infra.Template())), want), s.parameters); diff != "" {
		t.Error(diff)
	}
	if s.template != string(infra.Template()) || s.tags["owner"] != "ops" || s.tags["zae-limiter:version"] != "1.2.3" {
		t.Error(s.tags)
	}
	prepared(t, c, name, "cli:1.2.3") // and no function's version for Python's clients to compare
}

// Which functions there are is deployed, not said again.
func TestUpgradeOfALongName(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()+strings.Repeat("x", 34)
	opts := c.options()
	opts.Stack.NoProvisioner = true
	deploy(t, name, opts)
	opts.Stack = infra.Stack{}
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	must(t, err)
	opts.Stack.Tags = map[string]string{"team": "a"}
	_, err = infra.Tag(t.Context(), name, &opts)
	must(t, err)
}

// A namespace is registered by who deploys, not by who upgrades.
func TestUpgradeRegistersNothing(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Dynamo.Namespace = "prod"
	deploy(t, name, opts)
	opts.Dynamo.Namespace = "typo"
	d, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	must(t, err)
	if d.Namespace != "" || !d.Complete {
		t.Errorf("%+v", d)
	}
	_, err = dynamo.Connect(t.Context(), name, &dynamo.Options{AWS: config(c.engine), Namespace: "typo"})
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

// The bucket's tags follow the stack's.
func TestTagsOfTheBucketFollow(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.Tags = map[string]string{"team": "a"}
	deploy(t, name, opts)
	c.buckets[ownBucketOf(name)].tags["governance"] = "of others"
	opts.Stack.Tags = map[string]string{"team": "b", "env": "prod"}
	deploy(t, name, opts)
	opts.Stack.Tags = nil
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	must(t, err)
	if got := c.buckets[ownBucketOf(name)].tags; got["team"] != "b" || got["env"] != "prod" || got["ManagedBy"] != "zae-limiter" || got["governance"] != "of others" {
		t.Error(got)
	}
}

func TestUpgradeOfTheFunctionsAlone(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	s := c.find(name)
	s.template = "older"
	before := maps.Clone(s.parameters)
	opts := infra.UpgradeOptions{Options: c.options(), LambdaOnly: true}
	opts.Options.Version, opts.Options.Zip = "1.3.0", functionZip(t, 1)
	d, err := infra.Upgrade(t.Context(), name, &opts)
	must(t, err)
	if diff := cmp.Diff(with(before, map[string]string{"CodeKey": d.Code.Key}), s.parameters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(with(managedTags(name), map[string]string{"zae-limiter:lambda-version": "1.3.0"}), s.tags); diff != "" || s.template != "older" {
		t.Error(diff, s.template)
	}
	prepared(t, c, name, "cli:1.2.3")
	if !d.Complete {
		t.Errorf("%+v", d)
	}
	opts.Options.Version = "1.2.9"
	_, err = infra.Upgrade(t.Context(), name, &opts)
	wants[*infra.RefusedError](t, err, "1.3.0", "1.2.9")
}

func TestATakeoverThatFailsSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	pythonStack(t, c, name)
	c.failing = map[string]string{functionID: "no such architecture"}
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: c.options()})
	wants[*infra.FailedError](t, err, "no such architecture", "count nothing", "upgrade --force")
}

func TestUpgradeMigratesData(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	pythonStack(t, c, name)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.7.0"), "client_min_version": textValue("0.0.0"),
	})
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("default/SYSTEM#"), "SK": textValue("#LIMIT#rpm"), "limit_name": textValue("rpm"), "burst": &types.AttributeValueMemberN{Value: "5"},
		"capacity": &types.AttributeValueMemberN{Value: "5"}, "refill_amount": &types.AttributeValueMemberN{Value: "5"}, "refill_period_seconds": &types.AttributeValueMemberN{Value: "60"},
	})
	st, err := infra.Inspect(t.Context(), name, &infra.Options{Dynamo: c.options().Dynamo})
	must(t, err)
	if len(st.Versions.Pending) == 0 {
		t.Error("nothing is pending")
	}
	var told []dynamo.Progress
	d, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: c.options(), Migrating: func(p dynamo.Progress) { told = append(told, p) }})
	must(t, err)
	if diff := cmp.Diff([]string{"0.8.0"}, d.Migrated); diff != "" || len(told) == 0 {
		t.Error(diff, told)
	}
	prepared(t, c, name, "cli:1.2.3")
}

func TestUpgradeRefusesANewerTable(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	store(t, c, name, map[string]types.AttributeValue{"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.9.0")})
	opts := c.options()
	opts.Stack.LambdaMemory = 512
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	wants[*limiter.VersionError](t, err, "0.9.0")
	_, err = infra.Deploy(t.Context(), name, &opts)
	wants[*limiter.VersionError](t, err, "0.9.0")
	if got := c.calls("CreateChangeSet"); len(got) > 0 {
		t.Error(got)
	}
}

func TestWhatIsNotThereIsNotUpgraded(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	wants[error](t, err, name, region, "zae-limiter deploy --name "+name)
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	if _, err := infra.Tag(t.Context(), name, &opts); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	s := c.put(name, "DELETE_IN_PROGRESS", managedTags(name)) // and is not made again
	s.steps = []step{{status: "DELETE_IN_PROGRESS"}, {status: "DELETE_COMPLETE"}}
	c.happened(s, "", s.status, "")
	if _, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts}); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	if got := c.calls("CreateStack"); len(got) > 0 {
		t.Error(got)
	}
}

func TestTagKeepsEverythingElse(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	parameters, tags := maps.Clone(s.parameters), maps.Clone(s.tags)
	delete(s.tags, "ManagedBy")
	s.tags["aws:cloudformation:stack-name"] = "not ours to send"
	opts := c.options()
	opts.Stack.Tags = map[string]string{"team": "a", "zae-limiter:version": "6.6.6"}
	opts.Zip = ""
	d, err := infra.Tag(t.Context(), name, &opts)
	must(t, err)
	if d.Action != "updated" || d.Code != nil {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff(parameters, s.parameters); diff != "" || s.template != "python" {
		t.Error(diff, s.template)
	}
	if diff := cmp.Diff(with(tags, map[string]string{"team": "a"}), s.tags); diff != "" {
		t.Error(diff)
	}
	c.calls()
	if d, err := infra.Tag(t.Context(), name, &opts); err != nil || d.Action != "unchanged" || len(c.calls("CreateChangeSet")) > 0 {
		t.Errorf("%+v %v", d, err)
	}
}

// items are all in a table.
func items(t *testing.T, c *cloud, table string) iter.Seq[map[string]types.AttributeValue] {
	t.Helper()
	out, err := dynamodb.NewFromConfig(*config(c.engine)).Scan(context.Background(), &dynamodb.ScanInput{TableName: &table})
	must(t, err)
	return slices.Values(out.Items)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
