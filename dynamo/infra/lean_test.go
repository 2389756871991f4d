package infra_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// projectionByResource returns the projection of the index by resource.
func projectionByResource(t *testing.T, name string, opts infra.Options) string {
	t.Helper()
	st, err := infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	for _, index := range st.Table.Indexes {
		if index.Name == "GSI2" {
			return index.Projection
		}
	}
	return ""
}

// The kind of the index is chosen once. Deployments without a choice and upgrades
// keep it, and the other choice is refused before anything is sent.
func TestKindOfTheIndexIsKept(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ other, value, projection, refusal string }{
		infra.LeanIndex: {
			infra.FullIndex, "true", "KEYS_ONLY",
			"its index by resource holds keys only and would have to be created anew to hold whole items; " +
				"deploy it without --no-lean-index, or deploy another stack",
		},
		infra.FullIndex: {
			infra.LeanIndex, "false", "ALL",
			"its index by resource holds whole items and would have to be created anew to hold keys only; " +
				"deploy it without --lean-index, or deploy another stack",
		},
	} {
		cloud, name := newCloud(t), stackName()
		opts := cloud.options()
		opts.Stack.ResourceIndex = kind
		deploy(t, name, opts)
		is := func(after string) {
			t.Helper()
			if got := cloud.Find(name).Parameters["EnableLeanIndex"]; got != c.value {
				t.Errorf("%s index after %s: EnableLeanIndex is %q, want %q", kind, after, got, c.value)
			}
		}
		is("the creation")
		if got := projectionByResource(t, name, opts); got != c.projection {
			t.Errorf("%s index: the projection is %s, want %s", kind, got, c.projection)
		}
		for _, same := range []string{kind, ""} {
			opts.Stack.ResourceIndex = same
			if d := deploy(t, name, opts); d.Action != "unchanged" {
				t.Errorf("%s index, then %q: %+v", kind, same, d)
			}
		}
		opts.Stack.LambdaMemory = 512
		deploy(t, name, opts)
		is("an update")
		redeploy(t, name, cloud.options(), func(s *infra.Stack) { s.LambdaMemory = 256 })
		is("an update of the deployed settings")
		upgrade := infra.UpgradeOptions{Options: cloud.options()}
		upgrade.Options.Version, upgrade.Options.Zip = "1.3.0", functionZip(t, 1)
		_, err := infra.Upgrade(t.Context(), name, &upgrade)
		must(t, err)
		is("an upgrade")

		opts.Stack.ResourceIndex, opts.Version = c.other, "1.3.0"
		cloud.TakeCalls()
		_, err = infra.Deploy(t.Context(), name, &opts)
		checkError[*infra.RefusedError](t, err, c.refusal)
		if got := cloud.TakeCalls("CreateChangeSet", "PutObject", "CreateBucket"); len(got) > 0 {
			t.Errorf("%s index: a refused change sent %v", kind, got)
		}
	}
}

// A stack of the Python tool has a full index.
func TestPythonStackKeepsItsIndex(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	s := pythonStack(t, c, name)
	opts := c.options()
	opts.Stack.ResourceIndex = infra.LeanIndex
	_, err := infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "without --lean-index")
	if d := redeploy(t, name, c.options(), noChange); d.Action != "updated" ||
		s.Parameters["EnableLeanIndex"] != "false" {
		t.Errorf("%+v, %v", d, s.Parameters)
	}
}

// TestLeanIndexOnAnEmulator deploys, charges and lists on moto.
func TestLeanIndexOnAnEmulator(t *testing.T) {
	t.Parallel()
	name := stackName()
	opts := infra.Options{
		Dynamo: dynamo.Options{AWS: fakeaws.Config(moto(t)), Timeout: time.Minute}, Version: "1.2.3",
		Zip: functionZip(t), Poll: 1,
		Stack: infra.Stack{ResourceIndex: infra.LeanIndex},
	}
	deploy(t, name, opts)
	acquireFrom(t, name, &opts.Dynamo)
	repo, err := dynamo.Connect(t.Context(), name, &opts.Dynamo)
	must(t, err)
	defer repo.Close()
	var found []string
	for b, err := range repo.Buckets(t.Context(), time.Now(), limiter.Scope{Resource: "gpt-4"}) {
		must(t, err)
		found = append(found, b.Account.Entity)
	}
	if len(found) != 1 || found[0] != "key" {
		t.Errorf("buckets of %v, want those of key", found)
	}
	opts.Stack = infra.Stack{LambdaMemory: 512}
	if d := deploy(t, name, opts); d.Action != "updated" {
		t.Errorf("%+v", d)
	}
	if got := projectionByResource(t, name, opts); got != "KEYS_ONLY" {
		t.Errorf("after an update the projection is %s", got)
	}
	opts.Stack = infra.Stack{ResourceIndex: infra.FullIndex}
	_, err = infra.Deploy(t.Context(), name, &opts)
	checkError[*infra.RefusedError](t, err, "without --no-lean-index")
	_, err = infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: opts})
	must(t, err)
}
