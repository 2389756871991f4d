package dynamo_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

const managedRecord = "#PROVISIONER"

func TestManagedIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn.Add(123456789*time.Nanosecond), "", "sha256:ab", "",
		[]limiter.Scope{
			{Resource: "openai/gpt-4"},
			{Entity: "alice", Resource: "gpt-4"},
			{Resource: "B"},
			{},
			{Entity: "alice"},
			{Entity: "bob", Resource: "Z"},
		}))
	s.CheckItem(system, managedRecord, `
		managed_system BOOL true
		managed_resources L [S B, S openai/gpt-4]
		managed_entities M {alice L [S _default_, S gpt-4]; bob L [S Z]}
		last_applied S 2026-03-14T15:09:26.123000+00:00
		applied_hash S sha256:ab
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "sha256:ab", "sha256:cd", "", nil))
	s.CheckItem(system, managedRecord, `
		managed_system BOOL false
		managed_resources L []
		managed_entities M {}
		last_applied S 2026-03-14T15:09:26+00:00
		applied_hash S sha256:cd
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// putManaged stores a record as Python's provisioner does, without index keys.
func (s *storedTable) putManaged(hash string) {
	s.Helper()
	list := func(names ...string) types.AttributeValue {
		l := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
		for _, name := range names {
			l.Value = append(l.Value, &types.AttributeValueMemberS{Value: name})
		}
		return l
	}
	it := s.Attributes("PK S {ns}/SYSTEM#\nSK S #PROVISIONER\nGSI4PK S {ns}\nmanaged_system BOOL true\n" +
		"last_applied S 2026-03-01T08:00:00.123456+00:00\napplied_hash S " + hash)
	it["managed_resources"] = list("gpt-3.5", "gpt-4")
	it["managed_entities"] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"user-1": list("_default_", "gpt-4"), "user-0": list("gpt-4"), "user-2": list(),
	}}
	_, err := s.Client.PutItem(s.Context(), &dynamodb.PutItemInput{TableName: &s.TableName, Item: it})
	s.Must(err)
}

func TestManagedRecordKeepsItsOwner(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "", "first", "arn:stack Limits", nil))
	s.CheckItem(system, managedRecord, `
		managed_system BOOL false
		managed_resources L []
		managed_entities M {}
		last_applied S 2026-03-14T15:09:26+00:00
		applied_hash S first
		owner S arn:stack Limits
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.putManaged("sha256:ab") // Python drops the owner
	_, _, owner, err := s.Repo.Managed(t.Context())
	s.Must(err)
	s.Equal("owner", owner, "")
}

// A damaged list must not look like an empty one.
func TestDamagedManagedListIsNamedAndReplaced(t *testing.T) {
	t.Parallel()
	text := &types.AttributeValueMemberS{Value: "gpt-4"}
	for _, damage := range []struct {
		attribute string
		value     types.AttributeValue
	}{
		{"managed_system", text},
		{"managed_resources", &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberN{Value: "1"},
		}}},
		{"managed_entities", &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"alice": text}}},
		{"managed_entities", text},
	} {
		s := newStoredTable(t)
		s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "", "first", "mine", []limiter.Scope{
			{}, {Resource: "gpt-4"}, {Entity: "alice", Resource: "gpt-4"},
		}))
		it := s.Item(system, managedRecord)
		it[damage.attribute] = damage.value
		_, err := s.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.TableName, Item: it})
		s.Must(err)
		scopes, hash, owner, err := s.Repo.Managed(t.Context())
		if bad, ok := errors.AsType[*limiter.CorruptError](err); !ok ||
			!strings.Contains(bad.Error(), damage.attribute) || len(scopes) > 0 {
			t.Errorf("%s: %v, error %v", damage.attribute, scopes, err)
		}
		s.Equal("hash and owner", hash+owner, "firstmine")
		s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "first", "second", "", nil))
	}
}

// A record without a valid hash can be replaced.
func TestManagedRecordWithoutAHashIsReplaced(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"applied_hash N 1", "managed_system BOOL true"} {
		s := newStoredTable(t)
		s.PutItem(system, managedRecord, hash)
		_, got, _, err := s.Repo.Managed(t.Context())
		s.Must(err)
		s.Equal("hash", got, "")
		s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "", "first", "", nil))
		if err := s.Repo.SetManaged(
			t.Context(), dynamotest.Dawn, "", "second", "", nil,
		); !errors.Is(err, limiter.ErrConflict) {
			t.Errorf("over another: %v", err)
		}
	}
}

func TestManagedRecordOfPythonIsReadAndReplaced(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	hash := "sha256:" + strings.Repeat("0f", 32)
	s.putManaged(hash)
	scopes, got, owner, err := s.Repo.Managed(t.Context())
	s.Must(err)
	s.Equal("hash", got, hash)
	s.Equal("owner", owner, "")
	s.Equal("scopes", scopes, []limiter.Scope{
		{},
		{Resource: "gpt-3.5"},
		{Resource: "gpt-4"},
		{Entity: "user-0", Resource: "gpt-4"},
		{Entity: "user-1"},
		{Entity: "user-1", Resource: "gpt-4"},
	})
	if err := s.Repo.SetManaged(
		t.Context(), dynamotest.Dawn, "", "mine", "", nil,
	); !errors.Is(err, limiter.ErrConflict) {
		t.Errorf("over the record of another: %v", err)
	}
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, hash, "mine", "", scopes[:1]))
	s.putManaged(hash) // Python overwrites without a condition
	if err := s.Repo.SetManaged(
		t.Context(), dynamotest.Dawn, "mine", "mine too", "", nil,
	); !errors.Is(err, limiter.ErrConflict) {
		t.Errorf("after Python: %v", err)
	}
}

// A list that does not fit into an item is rejected before anything is stored.
// Python's documented maximum fits.
func TestManagedListIsLimitedByTheItemSize(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	list := func(n int) (all []limiter.Scope) {
		for i := range n {
			all = append(all, limiter.Scope{
				Entity:   fmt.Sprintf("an-entity-with-an-id-as-long-as-a-uuid-%06d", i),
				Resource: "openai/gpt-4.1-mini",
			})
		}
		return all
	}
	s.Must(s.Repo.CheckManaged(list(5000)))
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "", "long", "", list(5000)))
	if bad, ok := errors.AsType[*limiter.InvalidError](s.Repo.CheckManaged(list(8000))); !ok ||
		!strings.Contains(bad.Reason, "400 KB") {
		t.Errorf("not refused in advance: %v", bad)
	}
	longest := sort.Search(8000, func(n int) bool { return s.Repo.CheckManaged(list(n+1)) != nil })
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "long", "longest", strings.Repeat("x", 600), list(longest)))
	if err := s.Repo.SetManaged(
		t.Context(), dynamotest.Dawn, "longest", "long", "", list(longest+longest/20),
	); err == nil {
		t.Errorf("%d scopes are thought to be the most, but %d are stored", longest, longest+longest/20)
	}
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "longest", "long", "", list(5000)))
	err := s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "long", "longer", "", list(8000))
	if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || !strings.Contains(bad.Reason, "400 KB") {
		t.Errorf("error %v", err)
	}
	scopes, hash, _, err := s.Repo.Managed(t.Context())
	s.Must(err)
	s.Equal("hash", hash, "long")
	s.Equal("scopes", len(scopes), 5000)
}

// The retry has the same token, so the first write does not make it fail.
func TestManagedSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	var lost atomic.Bool
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		reply, err := c.Send()
		if err != nil || !isTransaction(c) || !lost.CompareAndSwap(false, true) {
			return reply, err
		}
		return nil, errors.Join(io.ErrUnexpectedEOF, reply.Body.Close())
	})
	s.Must(s.Repo.SetManaged(t.Context(), dynamotest.Dawn, "", "first", "", []limiter.Scope{{}}))
	_, hash, _, err := s.Repo.Managed(t.Context())
	s.Must(err)
	s.Equal("hash", hash, "first")
	s.Equal("an answer was lost", lost.Load(), true)
}

func TestPurgeTakesWhatIsManaged(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	ns, err := s.Repo.RegisterNamespace(t.Context(), dynamotest.Dawn, "other")
	s.Must(err)
	view, err := s.Repo.Namespace(t.Context(), "other")
	s.Must(err)
	s.Must(view.(*dynamo.Repository).SetManaged(t.Context(), dynamotest.Dawn, "", "first", "",
		[]limiter.Scope{{Resource: "gpt-4"}}))
	s.Must(s.Repo.DeleteNamespace(t.Context(), dynamotest.Dawn, "other"))
	s.Must(s.Repo.PurgeNamespace(t.Context(), ns.ID))
	s.Equal("left", len(s.SortKeys(ns.ID+"/SYSTEM#")), 0)
}

// Python's provisioner writes items that are in no index and no registry.
func TestBareConfigsOfPythonAreListedOnceTheyAreReplaced(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	s := newStoredTable(t)
	s.PutItem("{ns}/ENTITY#alice", "#CONFIG#gpt-4", limits+"\nentity_id S alice\nresource S gpt-4")
	s.PutItem("{ns}/ENTITY#bob", "#CONFIG#gpt-4", limits+"\nentity_id S bob\nresource S gpt-4")
	s.PutItem("{ns}/RESOURCE#gpt-4", "#CONFIG", limits+"\nresource S gpt-4")
	s.PutItem(system, "#CONFIG", limits+"\non_unavailable S allow\naudit_retention_days N 7")
	scopes := []limiter.Scope{
		{Entity: "alice", Resource: "gpt-4"}, {Entity: "bob", Resource: "gpt-4"}, {Resource: "gpt-4"}, {},
	}
	listed := func(want bool) {
		t.Helper()
		for _, scope := range scopes {
			cfg, got, err := s.Repo.ConfigListed(t.Context(), scope)
			s.Must(err)
			s.Equal("limits", cfg.Limits, []limiter.Limit{perMinute})
			s.Equal("listed", got, want)
		}
	}
	listed(false)
	for range 2 {
		for _, scope := range scopes {
			cfg := limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}
			s.Must(s.Repo.ReplaceConfig(t.Context(), cfg, s.Event("limits_set", "alice", "gpt-4")))
		}
	}
	listed(true)
	s.CheckCounts("gpt-4 N 2")
	s.Equal("entities", dynamotest.Collect(t, s.Repo.EntitiesWithLimits(t.Context(), "gpt-4")),
		[]string{"alice", "bob"})
	names, err := s.Repo.ResourcesWithDefaults(t.Context())
	s.Must(err)
	s.Equal("resources", names, []string{"gpt-4"})
	s.CheckItem(system, "#CONFIG", `
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		audit_retention_days N 7
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// Deleting a config that was not counted does not decrement the count: a count
// too low would hide the limits of others.
func TestBareConfigsAreCountedWhenTheyAreSet(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	bare := func(entity string) limiter.Scope {
		s.PutItem("{ns}/ENTITY#"+entity, "#CONFIG#gpt-4",
			"l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}\nentity_id S "+entity+"\nresource S gpt-4")
		return limiter.Scope{Entity: entity, Resource: "gpt-4"}
	}
	set := func(scope limiter.Scope) {
		t.Helper()
		s.Must(s.Repo.SetConfig(t.Context(), limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}},
			s.Event("limits_set", scope.Entity, "gpt-4")))
	}
	set(limiter.Scope{Entity: "alice", Resource: "gpt-4"})
	s.Must(s.Repo.DeleteConfig(t.Context(), bare("bob"), s.Event("limits_deleted", "bob", "gpt-4")))
	s.CheckCounts("gpt-4 N 1")
	set(bare("carol"))
	s.CheckCounts("gpt-4 N 2")
	s.Must(s.Repo.DeleteEntity(t.Context(), "carol", s.Event("entity_deleted", "carol", "")))
	s.CheckCounts("gpt-4 N 1")
	s.Equal("entities", dynamotest.Collect(t, s.Repo.EntitiesWithLimits(t.Context(), "gpt-4")), []string{"alice"})
}

func TestReplacedSystemThatMeetsRetentionKeepsIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutItem(system, systemConfig, "on_unavailable S allow")
	s.Wire.Before(isTransaction, func() { s.SetNumber(system, systemConfig, "audit_retention_days", "30") })
	cfg := limiter.Config{Limits: []limiter.Limit{perMinute}}
	s.Must(s.Repo.ReplaceConfig(t.Context(), cfg, s.Event("limits_set", "$SYSTEM", "")))
	s.CheckItem(system, systemConfig, `
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		audit_retention_days N 30
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}
