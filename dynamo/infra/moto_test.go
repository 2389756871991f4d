package infra_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// TestLifeOnAnEmulator runs the life cycle of a stack on moto. It completes every
// operation at once. It does not support alarms, running functions, the tags and
// architecture of functions, and TTL in a template, and its change sets ignore tags.
func TestLifeOnAnEmulator(t *testing.T) {
	t.Parallel()
	name := stackName()
	opts := infra.Options{
		Dynamo: dynamo.Options{AWS: fakeaws.Config(moto(t)), Timeout: time.Minute}, Version: "1.2.3",
		Zip: functionZip(t), Poll: 1,
	}
	opts.Stack = infra.Stack{IAMRoles: true, LambdaMemory: 512, Tags: map[string]string{"team": "a"}}
	var events []infra.Event
	opts.Event = func(e infra.Event) { events = append(events, e) }
	if d := deploy(t, name, opts); d.Action != "created" || !d.Complete || d.Outputs["TableName"] != name {
		t.Errorf("%+v", d)
	}
	if len(events) == 0 || events[len(events)-1].Status != "CREATE_COMPLETE" {
		t.Error(events)
	}
	if d := deploy(t, name, opts); d.Action != "unchanged" {
		t.Errorf("%+v", d)
	}
	acquireFrom(t, name, &opts.Dynamo)
	checkReady(t, name, opts)

	opts.Stack, opts.Version, opts.Zip = infra.Stack{}, "1.3.0", functionZip(t, 1)
	for _, action := range []string{"updated", "unchanged"} {
		d, err := infra.Upgrade(t.Context(), name, &infra.UpgradeOptions{Options: opts})
		must(t, err)
		if d.Action != action || !d.Complete || d.Code.Uploaded != (action == "updated") {
			t.Errorf("%+v, want %s", d, action)
		}
	}
	acquireFrom(t, name, &opts.Dynamo)
	checkReady(t, name, opts)

	opts.Stack = infra.Stack{IAMRoles: true, LambdaMemory: 1024, Tags: map[string]string{"team": "b"}}
	if d := deploy(t, name, opts); d.Action != "updated" {
		t.Errorf("%+v", d)
	}
	for _, tags := range []map[string]string{{"team": "c"}, {"env": "prod"}} {
		for _, action := range []string{"updated", "unchanged"} {
			opts.Stack.Tags = tags
			d, err := infra.Tag(t.Context(), name, &opts)
			must(t, err)
			if d.Action != action {
				t.Errorf("%v: %+v, want %s", tags, d, action)
			}
		}
	}
	found, err := infra.List(t.Context(), &opts)
	must(t, err)
	if i := slices.IndexFunc(found, func(f infra.StackSummary) bool {
		return f.Name == name
	}); i < 0 || !found[i].Healthy() || found[i].Version != "1.3.0" {
		t.Errorf("%+v", found)
	}
	st, err := infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	if st.Stack.Tags["team"] != "c" || st.Stack.Tags["env"] != "prod" || st.Aggregator.MemoryMB != 1024 {
		t.Errorf("%+v", st)
	}
	for _, existed := range []bool{true, false} {
		r, err := infra.Delete(t.Context(), name, &infra.DeleteOptions{Options: opts})
		must(t, err)
		if r.Existed != existed || !r.Complete || (r.Artifacts != "") != existed {
			t.Errorf("%+v", r)
		}
	}
	if _, err := dynamo.Connect(t.Context(), name, &opts.Dynamo); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

// checkReady checks that the status of a stack is Ready.
func checkReady(t *testing.T, name string, opts infra.Options) {
	t.Helper()
	st, err := infra.Inspect(t.Context(), name, &opts)
	must(t, err)
	if diff := cmp.Diff([]string{}, st.Problems); diff != "" || st.Verdict != infra.Ready {
		t.Error(diff)
	}
	if !st.Available || !st.Aggregator.Exists || !st.Provisioner.Exists || !st.EventSource.Exists ||
		!st.DeadLetters.Exists || st.Aggregator.MemoryMB != 512 {
		t.Errorf("%+v", st)
	}
	if st.Versions.Stack != opts.Version || st.Versions.UpdatedBy != "cli:"+opts.Version ||
		len(st.Table.Indexes) != 4 || len(st.IAM) != 9 {
		t.Errorf("%+v", st)
	}
}

// acquireFrom connects to a table and acquires a token.
func acquireFrom(t *testing.T, name string, opts *dynamo.Options) {
	t.Helper()
	repo, err := dynamo.Connect(t.Context(), name, opts)
	must(t, err)
	defer repo.Close()
	acquire(t, repo)
}
