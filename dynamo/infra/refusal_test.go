package infra_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

func TestDeployLeavesStacksOfOthersAlone(t *testing.T) {
	t.Parallel()
	for says, tags := range map[string]map[string]string{
		"does not belong": {"ManagedBy": "terraform"},
		"load-test":       {"ManagedBy": "zae-limiter", "zae-limiter:type": "load-test"},
	} {
		c, name := newCloud(t), stackName()
		c.AddStack(name, "CREATE_COMPLETE", tags)
		opts := c.options()
		_, err := infra.Deploy(t.Context(), name, &opts)
		checkError[*infra.RefusedError](t, err, says, "another name")
		_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: opts})
		checkError[*infra.RefusedError](t, err, says)
		_, err = infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
		checkError[*infra.RefusedError](t, err, says)
		if got := c.TakeCalls("CreateChangeSet", "DeleteStack", "CreateBucket"); len(got) > 0 {
			t.Error(got)
		}
	}
}

func TestDeployTakesOverAStackWithoutTags(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := c.AddStack(name, "CREATE_COMPLETE", nil)
	s.Resources[fakeaws.TableID] = name
	c.AddEvent(s, "", "CREATE_COMPLETE", "")
	c.CreateTable(name)
	if d := deploy(t, name, c.options()); d.Action != "updated" {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff(managedTags(name), s.Tags); diff != "" {
		t.Error(diff)
	}
}

func TestDeployNeverReplacesTheTable(t *testing.T) {
	t.Parallel()
	for _, bad := range []fakeaws.Change{
		{Action: "Modify", Resource: fakeaws.TableID, Type: fakeaws.ResourceType(fakeaws.TableID), Replacement: "True"},
		{Action: "Remove", Resource: fakeaws.TableID, Type: fakeaws.ResourceType(fakeaws.TableID)},
	} {
		c, name := newCloud(t), stackName()
		opts := c.options()
		deploy(t, name, opts)
		opts.Stack.LambdaMemory = 512
		opts.Confirm = func([]infra.Change) error { t.Error("Confirm was called"); return nil }
		c.Changes = []fakeaws.Change{
			{
				Action: "Modify", Resource: fakeaws.FunctionID, Type: fakeaws.ResourceType(fakeaws.FunctionID),
				Replacement: "True",
			},
			bad,
		}
		_, err := infra.Deploy(t.Context(), name, &opts)
		checkError[*infra.RefusedError](t, err, "table", "nothing was changed")
		if s := c.Find(name); len(s.ChangeSets) > 0 || s.Status != "CREATE_COMPLETE" {
			t.Errorf("%v %s", s.ChangeSets, s.Status)
		}
	}
}

func TestDeployMayBeRefused(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	deploy(t, name, opts)
	opts.Stack.LambdaMemory = 512
	no := errors.New("no")
	opts.Confirm = func([]infra.Change) error { return no }
	if _, err := infra.Deploy(t.Context(), name, &opts); err != no { //nolint:errorlint // not wrapped
		t.Errorf("%T %v", err, err)
	}
	if s := c.Find(name); len(s.ChangeSets) > 0 || s.Status != "CREATE_COMPLETE" {
		t.Errorf("%v %s", s.ChangeSets, s.Status)
	}
}

func TestDeployThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	c.Failing[fakeaws.FunctionID] = "The runtime is not supported"
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.FailedError](t, err, name, "created", "ROLLBACK_COMPLETE",
		"AggregatorFunction CREATE_FAILED: The runtime is not supported")
	if strings.Contains(err.Error(), "cancelled") {
		t.Error(err)
	}
	clear(c.Failing)
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "infra.Delete("+name+" ")
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: opts})
	must(t, err)
	deploy(t, name, opts)

	c.Failing[fakeaws.FunctionID] = "The memory is too small"
	opts.Stack.LambdaMemory = 512
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.FailedError](t, err, "updated", "UPDATE_ROLLBACK_COMPLETE", "The memory is too small")
	checkUsable(t, c, name, "cli:1.2.3")
	clear(c.Failing)
	if d := deploy(t, name, opts); d.Action != "updated" {
		t.Errorf("%+v", d)
	}
}

func TestDeployRefusesATableWithoutAStack(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	c.CreateTable(name)
	opts := c.options()
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "table "+name, "another name")
	if len(c.Stacks)+len(c.Buckets) > 0 {
		t.Error("something was created")
	}
}

func TestDeployRefusesAStackWithoutATable(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	deploy(t, name, opts)
	c.DropTable(name)
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "its table does not exist")
}

func TestDeployRefusesToGoBack(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	deploy(t, name, opts)
	opts.Version = "1.2.2"
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "1.2.3", "1.2.2")
	opts.Downgrade = true
	deploy(t, name, opts)
	if got := c.Find(name).Tags["zae-limiter:version"]; got != "1.2.2" {
		t.Error(got)
	}
	opts.Downgrade, opts.Version = false, "devel" // not a semantic version
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "1.2.2", "devel", "--downgrade")
	opts.Downgrade = true
	deploy(t, name, opts)
	opts.Downgrade = false
	deploy(t, name, opts)
}

func TestDeployValidatesBeforeAnyCall(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	notZip := filepath.Join(t.TempDir(), "not.zip")
	must(t, os.WriteFile(notZip, []byte("no zip"), 0o600))
	for name, opts := range map[string]infra.Options{
		"abe":                   {Zip: notZip},
		"abf":                   {Zip: functionZip(t), Stack: infra.Stack{Architecture: infra.X8664}},
		"abg":                   {Stack: infra.Stack{AlarmTopicARN: "arn:aws:sns:us-west-2:123456789012:topic"}},
		"a_b":                   {},
		"abc":                   {Stack: infra.Stack{LambdaMemory: 1}},
		"abd":                   {Dynamo: dynamo.Options{Namespace: "not a name"}},
		strings.Repeat("a", 46): {},
	} {
		opts.Dynamo.AWS = fakeaws.Config(c.URL)
		_, err := infra.Deploy(t.Context(), name, &opts)
		checkError[*limiter.InvalidError](t, err)
		_, err = infra.Open(t.Context(), name, &opts)
		if name == "a_b" {
			checkError[*limiter.InvalidError](t, err)
		}
	}
	if got := c.TakeCalls("DescribeStacks", "GetCallerIdentity", "DescribeTable"); len(got) > 0 {
		t.Error(got)
	}
}

// An endpoint with a host name needs path-style requests to S3.
func TestDeployToAnEndpointByName(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Dynamo.Endpoint = strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
	if d := deploy(t, name, opts); !d.Code.Uploaded {
		t.Errorf("%+v", d)
	}
}

func TestDeployWithoutFunctionsNeedsNoCode(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Zip, opts.Stack.NoIAM = "", true
	d := deploy(t, name, opts)
	s := c.Find(name)
	if s.Parameters["CodeKey"] != "" || d.Code != nil || c.Buckets[artifactBucketOf(name)] != nil {
		t.Errorf("%+v %v", d, s.Parameters)
	}
}
