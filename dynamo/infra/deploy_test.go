package infra_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

func TestDeployMakesAStackAndItsTable(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack = infra.Stack{AuditRetentionDays: 14, LambdaMemory: 512, Tags: map[string]string{"team": "a"}}
	var events []string
	opts.Event = func(e infra.Event) { events = append(events, e.Resource+" "+e.Status) }
	d := deploy(t, name, opts)
	s, b := c.Find(name), c.Buckets[artifactBucketOf(name)]
	want := infra.Deployment{
		Name: name, Region: fakeaws.Region, StackID: s.ID, Status: "CREATE_COMPLETE", Action: "created",
		Complete: true, Outputs: s.Outputs, Namespace: "default", NamespaceID: d.NamespaceID, Migrated: []string{},
		Code: &infra.Code{
			Bucket: artifactBucketOf(name), Key: s.Parameters["CodeKey"], SHA256: d.Code.SHA256,
			Size: len(b.Objects[d.Code.Key]), Uploaded: true, Source: opts.Zip,
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(d.Code.Key, d.Code.SHA256) || s.Parameters["CodeBucket"] != d.Code.Bucket ||
		s.Parameters["LambdaMemorySize"] != "512" {
		t.Error(s.Parameters)
	}
	if diff := cmp.Diff(merge(managedTags(name), map[string]string{"team": "a"}), s.Tags); diff != "" {
		t.Error(diff)
	}
	wantEvents := []string{
		name + " CREATE_IN_PROGRESS", "RateLimitsTable CREATE_IN_PROGRESS", "RateLimitsTable CREATE_COMPLETE",
		"AggregatorFunction CREATE_COMPLETE", "AuditArchiveBucket CREATE_COMPLETE", name + " CREATE_COMPLETE",
	}
	if diff := cmp.Diff(wantEvents, events); diff != "" {
		t.Error(diff)
	}
	wantTags := map[string]string{
		"team": "a", "ManagedBy": "zae-limiter", "zae-limiter:name": name, "zae-limiter:type": "limiter",
	}
	if diff := cmp.Diff(wantTags, b.Tags); diff != "" || !b.Blocked || !b.Encrypted {
		t.Error(diff, b.Blocked, b.Encrypted)
	}
	checkUsable(t, c, name, "cli:1.2.3")
}

func TestDeployingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	first := deploy(t, name, opts)
	c.TakeCalls()
	opts.Confirm = func(changes []infra.Change) error { t.Error(changes); return nil }
	second := deploy(t, name, opts)
	if second.Action != "unchanged" || second.Code.Uploaded || !second.Complete || second.StackID != first.StackID ||
		second.NamespaceID != first.NamespaceID {
		t.Errorf("%+v", second)
	}
	if got := c.TakeCalls(
		"CreateStack", "ExecuteChangeSet", "DeleteChangeSet", "PutObject", "CreateBucket", "PutBucketTagging",
	); !slices.Equal(got, []string{"DeleteChangeSet"}) {
		t.Error(got)
	}
}

func TestDeployHasTheTableRemoveWhatExpires(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	client := dynamodb.NewFromConfig(*fakeaws.Config(c.Engine))
	_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String("ttl"), Enabled: aws.Bool(false),
		},
	})
	must(t, err)
	deploy(t, name, c.options())
	out, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	must(t, err)
	if d := out.TimeToLiveDescription; d.TimeToLiveStatus != types.TimeToLiveStatusEnabled ||
		*d.AttributeName != "ttl" {
		t.Errorf("%+v", d)
	}
}

// A conditional replacement that depends only on attributes of kept resources is
// none.
func TestConditionalReplacementsAreResolved(t *testing.T) {
	t.Parallel()
	details := func(recreation, evaluation, source, entity string) string {
		return fmt.Sprintf("<Details><member><Target><Attribute>Properties</Attribute><RequiresRecreation>%s</RequiresRecreation></Target><Evaluation>%s</Evaluation><ChangeSource>%s</ChangeSource><CausingEntity>%s</CausingEntity></member></Details>",
			recreation, evaluation, source, entity)
	}
	stream := details("Always", "Dynamic", "ResourceAttribute", "RateLimitsTable.StreamArn")
	for name, test := range map[string]struct{ details, table, want string }{
		"attribute of a kept table":        {stream, "False", "False"},
		"attribute of a conditional table": {stream, "Conditional", "Conditional"},
		"attribute of another resource": {
			details("Always", "Dynamic", "ResourceAttribute", "Other.Arn"), "False", "Conditional",
		},
		"static change": {
			details("Conditionally", "Static", "DirectModification", ""), "False", "Conditional",
		},
		"no details": {"", "False", "Conditional"},
		"attribute that replaces nothing": {
			details("Never", "Dynamic", "ResourceAttribute", "RateLimitsTable.Arn"), "False", "Conditional",
		},
		"parameter": {details("Always", "Dynamic", "ParameterReference", "RateLimitsTable"), "False", "Conditional"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, name := newCloud(t), stackName()
			opts := c.options()
			deploy(t, name, opts)
			c.Changes = []fakeaws.Change{
				{
					Action: "Modify", Resource: "Mapping", Type: "AWS::Lambda::EventSourceMapping",
					Replacement: "Conditional", Details: test.details,
				},
				{
					Action: "Modify", Resource: fakeaws.TableID, Type: fakeaws.ResourceType(fakeaws.TableID),
					Replacement: test.table,
				},
			}
			opts.Stack.LambdaMemory = 512
			opts.Confirm = func(changes []infra.Change) error {
				if changes[0].Replacement != test.want {
					t.Error(changes)
				}
				return nil
			}
			if d := deploy(t, name, opts); d.Action != "updated" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Deploy does not ask for confirmation if only outputs or tags change.
func TestOnlyChangesAreShown(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	deploy(t, name, opts)
	c.Changes = []fakeaws.Change{}
	opts.Stack.Tags = map[string]string{"team": "a"}
	opts.Confirm = func(changes []infra.Change) error { return fmt.Errorf("asked for %v", changes) }
	if d := deploy(t, name, opts); d.Action != "updated" || c.Find(name).Tags["team"] != "a" {
		t.Errorf("%+v", d)
	}
}

func TestDeployChangesAStackThatIsThere(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.Tags = map[string]string{"team": "a"}
	first := deploy(t, name, opts)
	opts.Stack = infra.Stack{LambdaMemory: 1024, Tags: map[string]string{"team": "b"}}
	opts.Version, opts.Zip = "1.3.0", functionZip(t, 1)
	c.Changes = []fakeaws.Change{
		{Action: "Add", Resource: "New", Type: "AWS::SQS::Queue"},
		{
			Action: "Modify", Resource: fakeaws.FunctionID, Type: fakeaws.ResourceType(fakeaws.FunctionID),
			Replacement: "Conditional",
		},
		{
			Action: "Modify", Resource: fakeaws.TableID, Type: fakeaws.ResourceType(fakeaws.TableID),
			Replacement: "Conditional",
		},
	}
	var shown []infra.Change
	var events []string
	opts.Confirm = func(changes []infra.Change) error { shown = changes; return nil }
	opts.Event = func(e infra.Event) { events = append(events, e.Resource+" "+e.Status) }
	d := deploy(t, name, opts)
	if d.Action != "updated" || d.Status != "UPDATE_COMPLETE" || !d.Complete || d.StackID != first.StackID ||
		!d.Code.Uploaded {
		t.Errorf("%+v", d)
	}
	properties := []string{"Properties"}
	want := []infra.Change{
		{"Add", "New", "p", "AWS::SQS::Queue", "", properties},
		{"Modify", fakeaws.FunctionID, "p", fakeaws.ResourceType(fakeaws.FunctionID), "Conditional", properties},
		{"Modify", fakeaws.TableID, "p", fakeaws.ResourceType(fakeaws.TableID), "Conditional", properties},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		[]string{
			name + " UPDATE_IN_PROGRESS", "AggregatorFunction UPDATE_COMPLETE",
			name + " UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", name + " UPDATE_COMPLETE",
		},
		events,
	); diff != "" {
		t.Error(diff)
	}
	s := c.Find(name)
	if s.Parameters["LambdaMemorySize"] != "1024" || s.Parameters["CodeKey"] != d.Code.Key || s.Tags["team"] != "b" ||
		s.Tags["zae-limiter:version"] != "1.3.0" {
		t.Error(s.Parameters, s.Tags)
	}
	checkUsable(t, c, name, "cli:1.3.0")
}

// TestDeployInEveryState lists what Deploy does with a stack in each status.
func TestDeployInEveryState(t *testing.T) {
	t.Parallel()
	then := func(states ...string) []fakeaws.Step {
		var steps []fakeaws.Step
		for _, status := range states {
			steps = append(steps, fakeaws.Step{Status: status})
		}
		return steps
	}
	for status, c := range map[string]struct {
		steps   []fakeaws.Step // operations of others
		want    string         // the action
		refused string         // or part of the refusal
		noWait  string
	}{
		"CREATE_COMPLETE":          {want: "updated"},
		"UPDATE_COMPLETE":          {want: "updated"},
		"UPDATE_ROLLBACK_COMPLETE": {want: "updated"},
		"UPDATE_FAILED":            {want: "updated"},
		"IMPORT_COMPLETE":          {want: "updated"},
		"CREATE_IN_PROGRESS": {
			steps: then("CREATE_IN_PROGRESS", "CREATE_COMPLETE"), want: "updated", noWait: "waiting",
		},
		"UPDATE_IN_PROGRESS": {
			steps: then("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"), want: "updated",
			noWait: "waiting",
		},
		"UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": {
			steps: then("UPDATE_COMPLETE"), want: "updated", noWait: "waiting",
		},
		"UPDATE_ROLLBACK_IN_PROGRESS": {
			steps: then("UPDATE_ROLLBACK_COMPLETE"), want: "updated", noWait: "waiting",
		},
		"UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": {
			steps: then("UPDATE_ROLLBACK_COMPLETE"), want: "updated", noWait: "waiting",
		},
		"ROLLBACK_IN_PROGRESS": {steps: then("ROLLBACK_COMPLETE"), refused: "infra.Delete(app-", noWait: "waiting"},
		"DELETE_IN_PROGRESS": {
			steps: then("DELETE_IN_PROGRESS", "DELETE_COMPLETE"), want: "created", noWait: "waiting",
		},
		"DELETE_COMPLETE":        {want: "created"},
		"ROLLBACK_COMPLETE":      {refused: "infra.Delete(app-"},
		"CREATE_FAILED":          {refused: "infra.Delete(app-"},
		"ROLLBACK_FAILED":        {refused: "infra.Delete(app-"},
		"DELETE_FAILED":          {refused: "infra.Delete(app-"},
		"UPDATE_ROLLBACK_FAILED": {refused: "ContinueUpdateRollback of CloudFormation(app-"},
		"REVIEW_IN_PROGRESS":     {refused: "change set"},
	} {
		for _, noWait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", status, noWait), func(t *testing.T) {
				t.Parallel()
				cloud, name := newCloud(t), stackName()
				s := cloud.AddStack(name, status, managedTags(name))
				cloud.AddEvent(s, "", status, "")
				// the first poll still sees the old status
				s.Steps = append([]fakeaws.Step{{Status: status}}, c.steps...)
				if !strings.HasPrefix(status, "DELETE") {
					cloud.CreateTable(name)
				}
				opts := cloud.options()
				opts.NoWait = noWait
				want := c.want
				if noWait && c.noWait != "" {
					want = c.noWait
				}
				d, err := infra.Deploy(t.Context(), name, &opts)
				if refused := c.refused; refused != "" && want == "" {
					checkError[*infra.RefusedError](t, err, name, refused)
					if !errors.Is(err, limiter.ErrConflict) {
						t.Error("the error does not match ErrConflict")
					}
					return
				}
				must(t, err)
				if d.Action != want || d.Complete == noWait {
					t.Errorf("%+v, want %s", d, want)
				}
				if noWait { // a call without NoWait finishes the work
					opts.NoWait = false
					d, err := infra.Deploy(t.Context(), name, &opts)
					if c.refused != "" {
						checkError[*infra.RefusedError](t, err, c.refused)
						return
					}
					must(t, err)
					if !d.Complete || d.Action == "waiting" {
						t.Errorf("%+v", d)
					}
				}
				checkUsable(t, cloud, name, "cli:1.2.3")
			})
		}
	}
}

// Deploy reports only events of the current operation.
func TestWaitReportsOneOperation(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	s := c.Find(name)
	s.Status, s.Steps = "UPDATE_IN_PROGRESS", []fakeaws.Step{
		{
			Status: "UPDATE_IN_PROGRESS",
			Events: []fakeaws.Event{{Resource: fakeaws.FunctionID, Status: "UPDATE_FAILED", Reason: "why"}},
		}, {Status: "UPDATE_ROLLBACK_COMPLETE"},
	}
	c.AddEvent(s, "", s.Status, "")
	opts := c.options()
	var events []string
	opts.Event = func(e infra.Event) { events = append(events, e.Resource+" "+e.Status) }
	deploy(t, name, opts)
	want := []string{
		name + " UPDATE_IN_PROGRESS", "AggregatorFunction UPDATE_FAILED", name + " UPDATE_ROLLBACK_COMPLETE",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
}

// TestDeployBesideAnother changes the stack just before each write.
func TestDeployBesideAnother(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"CreateStack", "CreateChangeSet", "ExecuteChangeSet"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c, name := newCloud(t), stackName()
			opts := c.options()
			if op != "CreateStack" {
				deploy(t, name, opts)
			}
			opts.Stack.LambdaMemory = 512
			met := false
			c.Intercept = func(r *fakeaws.Request) *fakeaws.Reply {
				if r.Op != op || met {
					return nil
				}
				met = true
				if op == "CreateStack" {
					c.CreateStack(r)
					return nil
				}
				s := c.Find(name)
				s.Status, s.Steps = "UPDATE_IN_PROGRESS", []fakeaws.Step{{Status: "UPDATE_COMPLETE"}}
				c.AddEvent(s, "", s.Status, "")
				return nil
			}
			d := deploy(t, name, opts)
			if !met || !d.Complete || c.Find(name).Parameters["LambdaMemorySize"] != "512" {
				t.Errorf("%+v", d)
			}
		})
	}
}
