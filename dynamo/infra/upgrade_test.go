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
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// pythonStack adds a stack of the Python tool and its table.
func pythonStack(t *testing.T, c *cloud, name string) *fakeaws.Stack {
	t.Helper()
	s := c.AddStack(name, "UPDATE_COMPLETE",
		merge(managedTags(name), map[string]string{
			"zae-limiter:version": "9.9.9", "zae-limiter:lambda-version": "9.9.9", "owner": "ops",
		}))
	s.Template, s.Parameters = "python", map[string]string{
		"SchemaVersion": "0.8.0", "EnableAggregator": "true", "EnableIAM": "true", "EnableIAMRoles": "true",
		"RoleNameFormat": "x-{}", "LambdaMemorySize": "512", "Forgotten": "x",
	}
	s.Resources[fakeaws.TableID] = name
	c.AddEvent(s, "", "UPDATE_COMPLETE", "")
	c.CreateTable(name)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.8.0"),
		"client_min_version": textValue("0.0.0"),
		"lambda_version":     textValue("0.9.0"), "updated_by": textValue("cli:0.9.0"),
		"updated_at": textValue("2025-01-02T03:04:05Z"),
	})
	return s
}

func textValue(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// store writes an item to a table.
func store(t *testing.T, c *cloud, table string, item map[string]types.AttributeValue) {
	t.Helper()
	_, err := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).PutItem(context.Background(),
		&dynamodb.PutItemInput{TableName: &table, Item: item})
	must(t, err)
}

func TestUpgradeKeepsParametersAndTags(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack = infra.Stack{LambdaMemory: 512, RoleNameFormat: "x-{}", Tags: map[string]string{"owner": "ops"}}
	deploy(t, name, opts)
	s := c.Find(name)
	before := maps.Clone(s.Parameters)
	upgrade := infra.UpgradeOptions{Options: c.options()}
	upgrade.Options.Version, upgrade.Options.Zip = "1.3.0", functionZip(t, 1)
	d, err := infra.Upgrade(t.Context(), name, &upgrade)
	must(t, err)
	if d.Action != "updated" || !d.Code.Uploaded || !d.Complete || len(d.Migrated) > 0 {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff(merge(before, map[string]string{"CodeKey": d.Code.Key}), s.Parameters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		merge(managedTags(name), map[string]string{
			"owner": "ops", "zae-limiter:version": "1.3.0", "zae-limiter:lambda-version": "1.3.0",
		}),
		s.Tags,
	); diff != "" {
		t.Error(diff)
	}
	checkUsable(t, c, name, "cli:1.3.0")
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
	checkError[*infra.RefusedError](t, err, "Python", "all of it")
	opts.LambdaOnly = false
	d, err := infra.Upgrade(t.Context(), name, &opts) // although its version is higher
	must(t, err)
	want := map[string]string{
		"SchemaVersion": "0.8.0", "EnableAggregator": "true", "EnableIAM": "true", "EnableIAMRoles": "true",
		"RoleNameFormat": "x-{}", "LambdaMemorySize": "512",
		"CodeBucket": artifactBucketOf(name), "CodeKey": d.Code.Key, "Architecture": "arm64",
		"StreamStartingPosition": "LATEST",
	}
	if diff := cmp.Diff(merge(fakeaws.Defaults(string(infra.Template())), want), s.Parameters); diff != "" {
		t.Error(diff)
	}
	if s.Template != string(infra.Template()) || s.Tags["owner"] != "ops" || s.Tags["zae-limiter:version"] != "1.2.3" {
		t.Error(s.Tags)
	}
	checkUsable(t, c, name, "cli:1.2.3") // without a function version for Python clients to compare
}

// Upgrade checks the name with the deployed functions only.
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

// Upgrade does not register a namespace in a table that has one.
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
	_, err = dynamo.Connect(t.Context(), name, &dynamo.Options{AWS: fakeaws.Config(c.Engine), Namespace: "typo"})
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

// Deploy updates the tags of the bucket.
func TestTagsOfTheBucketFollow(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.Tags = map[string]string{"team": "a"}
	deploy(t, name, opts)
	c.Buckets[artifactBucketOf(name)].Tags["governance"] = "of others"
	opts.Stack.Tags = map[string]string{"team": "b", "env": "prod"}
	deploy(t, name, opts)
	opts.Stack.Tags = nil
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	must(t, err)
	if got := c.Buckets[artifactBucketOf(name)].Tags; got["team"] != "b" || got["env"] != "prod" ||
		got["ManagedBy"] != "zae-limiter" || got["governance"] != "of others" {
		t.Error(got)
	}
}

func TestUpgradeOfTheFunctionsAlone(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	s := c.Find(name)
	s.Template = "older"
	before := maps.Clone(s.Parameters)
	opts := infra.UpgradeOptions{Options: c.options(), LambdaOnly: true}
	opts.Options.Version, opts.Options.Zip = "1.3.0", functionZip(t, 1)
	d, err := infra.Upgrade(t.Context(), name, &opts)
	must(t, err)
	if diff := cmp.Diff(merge(before, map[string]string{"CodeKey": d.Code.Key}), s.Parameters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		merge(managedTags(name), map[string]string{"zae-limiter:lambda-version": "1.3.0"}), s.Tags,
	); diff != "" || s.Template != "older" {
		t.Error(diff, s.Template)
	}
	checkUsable(t, c, name, "cli:1.2.3")
	if !d.Complete {
		t.Errorf("%+v", d)
	}
	opts.Options.Version = "1.2.9"
	_, err = infra.Upgrade(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "1.3.0", "1.2.9")
}

func TestATakeoverThatFailsSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	pythonStack(t, c, name)
	c.Failing = map[string]string{fakeaws.FunctionID: "no such architecture"}
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: c.options()})
	checkError[*infra.FailedError](t, err, "no such architecture", "count nothing", "upgrade --force")
}

func TestUpgradeMigratesData(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	pythonStack(t, c, name)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.7.0"),
		"client_min_version": textValue("0.0.0"),
	})
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("default/SYSTEM#"), "SK": textValue("#LIMIT#rpm"), "limit_name": textValue("rpm"),
		"burst":                 &types.AttributeValueMemberN{Value: "5"},
		"capacity":              &types.AttributeValueMemberN{Value: "5"},
		"refill_amount":         &types.AttributeValueMemberN{Value: "5"},
		"refill_period_seconds": &types.AttributeValueMemberN{Value: "60"},
	})
	st, err := infra.Inspect(t.Context(), name, &infra.Options{Dynamo: c.options().Dynamo})
	must(t, err)
	if len(st.Versions.Pending) == 0 {
		t.Error("no migration is pending")
	}
	var progress []dynamo.Progress
	d, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{
		Options: c.options(),
		Migrating: func(p dynamo.Progress) {
			progress = append(progress, p)
		},
	})
	must(t, err)
	if diff := cmp.Diff([]string{"0.8.0"}, d.Migrated); diff != "" || len(progress) == 0 {
		t.Error(diff, progress)
	}
	checkUsable(t, c, name, "cli:1.2.3")
}

func TestUpgradeRefusesANewerTable(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.9.0"),
	})
	opts := c.options()
	opts.Stack.LambdaMemory = 512
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	checkError[*limiter.VersionError](t, err, "0.9.0")
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*limiter.VersionError](t, err, "0.9.0")
	if got := c.TakeCalls("CreateChangeSet"); len(got) > 0 {
		t.Error(got)
	}
}

func TestUpgradeOfMissingStack(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	_, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
	checkError[error](t, err, name, fakeaws.Region, "infra.Deploy("+name+" ")
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	if _, err := infra.Tag(t.Context(), name, &opts); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	s := c.AddStack(name, "DELETE_IN_PROGRESS", managedTags(name)) // and is not created again
	s.Steps = []fakeaws.Step{{Status: "DELETE_IN_PROGRESS"}, {Status: "DELETE_COMPLETE"}}
	c.AddEvent(s, "", s.Status, "")
	if _, err := infra.Upgrade(
		t.Context(), name, &infra.UpgradeOptions{Options: opts},
	); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	if got := c.TakeCalls("CreateStack"); len(got) > 0 {
		t.Error(got)
	}
}

func TestTagKeepsEverythingElse(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	parameters, tags := maps.Clone(s.Parameters), maps.Clone(s.Tags)
	delete(s.Tags, "ManagedBy")
	s.Tags["aws:cloudformation:stack-name"] = "not ours to send"
	opts := c.options()
	opts.Stack.Tags = map[string]string{"team": "a", "zae-limiter:version": "6.6.6"}
	opts.Zip = ""
	d, err := infra.Tag(t.Context(), name, &opts)
	must(t, err)
	if d.Action != "updated" || d.Code != nil {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff(parameters, s.Parameters); diff != "" || s.Template != "python" {
		t.Error(diff, s.Template)
	}
	if diff := cmp.Diff(merge(tags, map[string]string{"team": "a"}), s.Tags); diff != "" {
		t.Error(diff)
	}
	c.TakeCalls()
	if d, err := infra.Tag(t.Context(), name, &opts); err != nil || d.Action != "unchanged" ||
		len(c.TakeCalls("CreateChangeSet")) > 0 {
		t.Errorf("%+v %v", d, err)
	}
}

// items returns all items of a table.
func items(t *testing.T, c *cloud, table string) iter.Seq[map[string]types.AttributeValue] {
	t.Helper()
	out, err := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine)).Scan(context.Background(),
		&dynamodb.ScanInput{TableName: &table})
	must(t, err)
	return slices.Values(out.Items)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
