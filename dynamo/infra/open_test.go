package infra_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// open opens a stack, and fails the test if it cannot.
func open(t *testing.T, name string, opts infra.Options) *dynamo.Repository {
	t.Helper()
	repo, err := infra.Open(t.Context(), name, &opts)
	must(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

func TestOpenMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Dynamo.Namespace, opts.NoWait = "team-a", true
	opts.Now = func() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }
	repo := open(t, name, opts)
	must(t, repo.Ping(t.Context()))
	v, err := repo.Version(t.Context())
	must(t, err)
	if v.UpdatedBy != "client:1.2.3" || !v.UpdatedAt.Equal(opts.Now()) || c.Find(name).Status != "CREATE_COMPLETE" {
		t.Errorf("%+v", v)
	}
	c.TakeCalls()
	opts.Dynamo.Namespace = "team-b" // in an existing table
	other := open(t, name, opts)
	if got := c.TakeCalls(
		"DescribeStacks", "CreateStack", "CreateChangeSet",
	); len(got) > 0 || other.NamespaceID() == repo.NamespaceID() {
		t.Error(got)
	}
	again, err := other.Version(t.Context())
	must(t, err)
	if diff := cmp.Diff(v, again); diff != "" {
		t.Error(diff)
	}
}

// Open of an existing table reads its records, and looks for buckets of newer Python
// releases.
func TestOpenOfWhatIsThereIsConnect(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	opts := c.options()
	opts.Stack.LambdaMemory = 1024 // differs from the deployed value, and is ignored
	open(t, name, opts)
	if got := c.Log(); !slices.Equal(got, []string{"BatchGetItem", "Query"}) {
		t.Error(got)
	}
}

func TestOpenWaitsForAStackThatIsBeingMade(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.NoWait = true
	deploy(t, name, opts)
	open(t, name, opts)
	if got := c.TakeCalls("CreateStack", "CreateChangeSet"); !slices.Equal(got, []string{"CreateStack"}) {
		t.Error(got)
	}
}

func TestOpenRefusesANewerTable(t *testing.T) {
	t.Parallel()
	c, name := newStack(t, true)
	store(t, c, name, map[string]types.AttributeValue{
		"PK": textValue("_/SYSTEM#"), "SK": textValue("#VERSION"), "schema_version": textValue("0.9.0"),
	})
	opts := c.options()
	_, err := infra.Open(t.Context(), name, &opts)
	checkError[*limiter.VersionError](t, err, "0.9.0")
}

func TestAuditRetentionIsStored(t *testing.T) {
	t.Parallel()
	c, name := newCloud(t), stackName()
	opts := c.options()
	opts.Stack.AuditRetentionDays = 5
	repo := open(t, name, opts)
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time {
		return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	}})
	must(t, err)
	must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 1)))
	opts.Stack.AuditRetentionDays = 0 // keeps the stored value
	deploy(t, name, opts)
	var events int
	for it := range items(t, c, name) {
		if ttl, ok := it["ttl"].(*types.AttributeValueMemberN); ok {
			events++
			if want := time.Date(2026, 5, 11, 0, 0, 0, 0, time.UTC).Unix(); ttl.Value != decimal(want) {
				t.Errorf("ttl %s, want %d", ttl.Value, want)
			}
		}
		if days, ok := it["audit_retention_days"].(*types.AttributeValueMemberN); ok && days.Value != "5" {
			t.Error(days.Value)
		}
	}
	if events != 1 {
		t.Errorf("%d events", events)
	}
}
