package infra_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
)

// stackName is new on every call: all clouds share the engine for tables.
func stackName() string { return "app-" + strings.ToLower(rand.Text()[:12]) }

func ownBucketOf(name string) string { return name + "-artifacts-" + accountID + "-" + region }

// deploy must succeed.
func deploy(t *testing.T, name string, opts infra.Options) infra.Deployment {
	t.Helper()
	d, err := infra.Deploy(t.Context(), name, &opts)
	must(t, err)
	return d
}

// wants is for a call that must fail in this way, with these words.
func wants[T error](t *testing.T, err error, says ...string) {
	t.Helper()
	if _, ok := errors.AsType[T](err); !ok {
		t.Fatalf("%T: %v", err, err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func managedTags(name string) map[string]string {
	return map[string]string{
		"ManagedBy": "zae-limiter", "zae-limiter:name": name, "zae-limiter:type": "limiter",
		"zae-limiter:version": "1.2.3", "zae-limiter:schema-version": "0.8.0", "zae-limiter:lambda-version": "1.2.3",
	}
}

func TestDeployMakesAStackAndItsTable(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack = infra.Stack{AuditRetentionDays: 14, LambdaMemory: 512, Tags: map[string]string{"team": "a"}}
	var told []string
	opts.Event = func(e infra.Event) { told = append(told, e.Resource+" "+e.Status) }
	d := deploy(t, name, opts)
	s, b := c.find(name), c.buckets[ownBucketOf(name)]
	want := infra.Deployment{
		Name: name, Region: region, StackID: s.id, Status: "CREATE_COMPLETE", Action: "created", Complete: true, Outputs: s.outputs, Namespace: "default", NamespaceID: d.NamespaceID, Migrated: []string{},
		Code: &infra.Code{
			Bucket: ownBucketOf(name), Key: s.parameters["CodeKey"], SHA256: d.Code.SHA256, Size: len(b.objects[d.Code.Key]), Uploaded: true, Source: opts.Zip,
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(d.Code.Key, d.Code.SHA256) || s.parameters["CodeBucket"] != d.Code.Bucket || s.parameters["LambdaMemorySize"] != "512" {
		t.Error(s.parameters)
	}
	if diff := cmp.Diff(with(managedTags(name), map[string]string{"team": "a"}), s.tags); diff != "" {
		t.Error(diff)
	}
	wantTold := []string{
		name + " CREATE_IN_PROGRESS", "RateLimitsTable CREATE_IN_PROGRESS", "RateLimitsTable CREATE_COMPLETE",
		"AggregatorFunction CREATE_COMPLETE", "AuditArchiveBucket CREATE_COMPLETE", name + " CREATE_COMPLETE",
	}
	if diff := cmp.Diff(wantTold, told); diff != "" {
		t.Error(diff)
	}
	wantTags := map[string]string{"team": "a", "ManagedBy": "zae-limiter", "zae-limiter:name": name, "zae-limiter:type": "limiter"}
	if diff := cmp.Diff(wantTags, b.tags); diff != "" || !b.blocked || !b.encrypted {
		t.Error(diff, b.blocked, b.encrypted)
	}
	prepared(t, c, name, "cli:1.2.3")
}

func with(all, more map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}

// prepared checks that a table can be used, and who made it so.
func prepared(t *testing.T, c *cloud, name, by string) {
	t.Helper()
	repo, err := dynamo.Connect(t.Context(), name, &dynamo.Options{AWS: config(c.engine), Timeout: time.Minute})
	must(t, err)
	defer repo.Close()
	v, err := repo.Version(t.Context())
	must(t, err)
	if v.UpdatedBy != by || v.Lambda != "" || v.Schema != "0.8.0" || v.ClientMin != "0.0.0" {
		t.Errorf("%+v", v)
	}
	lim, err := limiter.New(repo, nil)
	must(t, err)
	must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)))
	lease, err := lim.Acquire(t.Context(), limiter.Request{Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)})
	must(t, err)
	must(t, lease.Commit(t.Context()))
}

func TestDeployingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	first := deploy(t, name, opts)
	c.calls()
	opts.Confirm = func(changes []infra.Change) error { t.Error(changes); return nil }
	second := deploy(t, name, opts)
	if second.Action != "unchanged" || second.Code.Uploaded || !second.Complete || second.StackID != first.StackID || second.NamespaceID != first.NamespaceID {
		t.Errorf("%+v", second)
	}
	if got := c.calls("CreateStack", "ExecuteChangeSet", "DeleteChangeSet", "PutObject", "CreateBucket", "PutBucketTagging"); !slices.Equal(got, []string{"DeleteChangeSet"}) {
		t.Error(got)
	}
}

func TestDeployHasTheTableRemoveWhatExpires(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	deploy(t, name, c.options())
	client := dynamodb.NewFromConfig(*config(c.engine))
	_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)},
	})
	must(t, err)
	deploy(t, name, c.options())
	out, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	must(t, err)
	if d := out.TimeToLiveDescription; d.TimeToLiveStatus != types.TimeToLiveStatusEnabled || *d.AttributeName != "ttl" {
		t.Errorf("%+v", d)
	}
}

// A replacement that hangs on an attribute of something that stays is none.
func TestDoubtsAboutReplacementsAreCleared(t *testing.T) {
	t.Parallel()
	because := func(recreation, evaluation, source, entity string) string {
		return fmt.Sprintf("<Details><member><Target><Attribute>Properties</Attribute><RequiresRecreation>%s</RequiresRecreation></Target><Evaluation>%s</Evaluation><ChangeSource>%s</ChangeSource><CausingEntity>%s</CausingEntity></member></Details>",
			recreation, evaluation, source, entity)
	}
	stream := because("Always", "Dynamic", "ResourceAttribute", "RateLimitsTable.StreamArn")
	for name, test := range map[string]struct{ details, table, want string }{
		"of a table that stays":     {stream, "False", "False"},
		"of one that may not":       {stream, "Conditional", "Conditional"},
		"of something else":         {because("Always", "Dynamic", "ResourceAttribute", "Other.Arn"), "False", "Conditional"},
		"of what is written":        {because("Conditionally", "Static", "DirectModification", ""), "False", "Conditional"},
		"of nothing that is told":   {"", "False", "Conditional"},
		"of what replaces nothing":  {because("Never", "Dynamic", "ResourceAttribute", "RateLimitsTable.Arn"), "False", "Conditional"},
		"of a parameter that might": {because("Always", "Dynamic", "ParameterReference", "RateLimitsTable"), "False", "Conditional"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, name := newCloud(t), stackName()
			opts := c.options()
			deploy(t, name, opts)
			c.changes = []change{{"Modify", "Mapping", "AWS::Lambda::EventSourceMapping", "Conditional", test.details}, {"Modify", tableID, kinds[tableID], test.table, ""}}
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

// An update of nothing but outputs or tags needs no consent.
func TestOnlyChangesAreShown(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	deploy(t, name, opts)
	c.changes = []change{}
	opts.Stack.Tags = map[string]string{"team": "a"}
	opts.Confirm = func(changes []infra.Change) error { return fmt.Errorf("asked for %v", changes) }
	if d := deploy(t, name, opts); d.Action != "updated" || c.find(name).tags["team"] != "a" {
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
	c.changes = []change{{"Add", "New", "AWS::SQS::Queue", "", ""}, {"Modify", functionID, kinds[functionID], "Conditional", ""}, {"Modify", tableID, kinds[tableID], "Conditional", ""}}
	var shown []infra.Change
	var told []string
	opts.Confirm = func(changes []infra.Change) error { shown = changes; return nil }
	opts.Event = func(e infra.Event) { told = append(told, e.Resource+" "+e.Status) }
	d := deploy(t, name, opts)
	if d.Action != "updated" || d.Status != "UPDATE_COMPLETE" || !d.Complete || d.StackID != first.StackID || !d.Code.Uploaded {
		t.Errorf("%+v", d)
	}
	properties := []string{"Properties"}
	want := []infra.Change{
		{"Add", "New", "p", "AWS::SQS::Queue", "", properties},
		{"Modify", functionID, "p", kinds[functionID], "Conditional", properties},
		{"Modify", tableID, "p", kinds[tableID], "Conditional", properties},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{name + " UPDATE_IN_PROGRESS", "AggregatorFunction UPDATE_COMPLETE", name + " UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", name + " UPDATE_COMPLETE"}, told); diff != "" {
		t.Error(diff)
	}
	s := c.find(name)
	if s.parameters["LambdaMemorySize"] != "1024" || s.parameters["CodeKey"] != d.Code.Key || s.tags["team"] != "b" || s.tags["zae-limiter:version"] != "1.3.0" {
		t.Error(s.parameters, s.tags)
	}
	prepared(t, c, name, "cli:1.3.0")
}

// TestDeployInEveryState is the table of what Deploy does with a stack it finds.
func TestDeployInEveryState(t *testing.T) {
	t.Parallel()
	then := func(states ...string) []step {
		var steps []step
		for _, status := range states {
			steps = append(steps, step{status: status})
		}
		return steps
	}
	for status, c := range map[string]struct {
		steps   []step // what others are doing
		want    string // the action
		refused string // or why not
		noWait  string
	}{
		"CREATE_COMPLETE":                              {want: "updated"},
		"UPDATE_COMPLETE":                              {want: "updated"},
		"UPDATE_ROLLBACK_COMPLETE":                     {want: "updated"},
		"UPDATE_FAILED":                                {want: "updated"},
		"IMPORT_COMPLETE":                              {want: "updated"},
		"CREATE_IN_PROGRESS":                           {steps: then("CREATE_IN_PROGRESS", "CREATE_COMPLETE"), want: "updated", noWait: "waiting"},
		"UPDATE_IN_PROGRESS":                           {steps: then("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"), want: "updated", noWait: "waiting"},
		"UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":          {steps: then("UPDATE_COMPLETE"), want: "updated", noWait: "waiting"},
		"UPDATE_ROLLBACK_IN_PROGRESS":                  {steps: then("UPDATE_ROLLBACK_COMPLETE"), want: "updated", noWait: "waiting"},
		"UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": {steps: then("UPDATE_ROLLBACK_COMPLETE"), want: "updated", noWait: "waiting"},
		"ROLLBACK_IN_PROGRESS":                         {steps: then("ROLLBACK_COMPLETE"), refused: "zae-limiter delete", noWait: "waiting"},
		"DELETE_IN_PROGRESS":                           {steps: then("DELETE_IN_PROGRESS", "DELETE_COMPLETE"), want: "created", noWait: "waiting"},
		"DELETE_COMPLETE":                              {want: "created"},
		"ROLLBACK_COMPLETE":                            {refused: "zae-limiter delete"},
		"CREATE_FAILED":                                {refused: "zae-limiter delete"},
		"ROLLBACK_FAILED":                              {refused: "zae-limiter delete"},
		"DELETE_FAILED":                                {refused: "zae-limiter delete"},
		"UPDATE_ROLLBACK_FAILED":                       {refused: "continue-update-rollback"},
		"REVIEW_IN_PROGRESS":                           {refused: "change set"},
	} {
		for _, noWait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", status, noWait), func(t *testing.T) {
				t.Parallel()
				cloud, name := newCloud(t), stackName()
				s := cloud.put(name, status, managedTags(name))
				cloud.happened(s, "", status, "")
				s.steps = append([]step{{status: status}}, c.steps...) // nobody sees the change at once
				if !strings.HasPrefix(status, "DELETE") {
					cloud.makeTable(name)
				}
				opts := cloud.options()
				opts.NoWait = noWait
				want := c.want
				if noWait && c.noWait != "" {
					want = c.noWait
				}
				d, err := infra.Deploy(t.Context(), name, &opts)
				if refused := c.refused; refused != "" && want == "" {
					wants[*infra.RefusedError](t, err, name, refused)
					if !errors.Is(err, limiter.ErrConflict) {
						t.Error("it is no conflict")
					}
					return
				}
				must(t, err)
				if d.Action != want || d.Complete == noWait {
					t.Errorf("%+v, want %s", d, want)
				}
				if noWait { // the same without it finishes the work
					opts.NoWait = false
					d, err := infra.Deploy(t.Context(), name, &opts)
					if c.refused != "" {
						wants[*infra.RefusedError](t, err, c.refused)
						return
					}
					must(t, err)
					if !d.Complete || d.Action == "waiting" {
						t.Errorf("%+v", d)
					}
				}
				prepared(t, cloud, name, "cli:1.2.3")
			})
		}
	}
}

// TestAWaitTellsOfOneOperation: what happened to the stack before is of no
// interest.
func TestAWaitTellsOfOneOperation(t *testing.T) {
	t.Parallel()
	c, name := fresh(t, true)
	s := c.find(name)
	s.status, s.steps = "UPDATE_IN_PROGRESS", []step{
		{status: "UPDATE_IN_PROGRESS", events: []event{{Resource: functionID, Status: "UPDATE_FAILED", Reason: "why"}}}, {status: "UPDATE_ROLLBACK_COMPLETE"},
	}
	c.happened(s, "", s.status, "")
	opts := c.options()
	var told []string
	opts.Event = func(e infra.Event) { told = append(told, e.Resource+" "+e.Status) }
	deploy(t, name, opts)
	want := []string{name + " UPDATE_IN_PROGRESS", "AggregatorFunction UPDATE_FAILED", name + " UPDATE_ROLLBACK_COMPLETE"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// TestDeployBesideAnother has somebody else be a moment faster.
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
			c.plan = func(asked *cloudCall) *reply {
				if asked.op != op || met {
					return nil
				}
				met = true
				if op == "CreateStack" {
					c.createStack(asked, nil)
					return nil
				}
				s := c.find(name)
				s.status, s.steps = "UPDATE_IN_PROGRESS", []step{{status: "UPDATE_COMPLETE"}}
				c.happened(s, "", s.status, "")
				return nil
			}
			d := deploy(t, name, opts)
			if !met || !d.Complete || c.find(name).parameters["LambdaMemorySize"] != "512" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// connect reaches a stack's table past the cloud.
func connect(ctx context.Context, c *cloud, name string) (*dynamo.Repository, error) {
	return dynamo.Connect(ctx, name, &dynamo.Options{AWS: config(c.engine), Timeout: time.Minute})
}
