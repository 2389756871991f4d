package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestBareConfigsOfPythonAreListedOnceTheyAreReplaced: its provisioner writes
// items that are in no index and no registry.
func TestBareConfigsOfPythonAreListedOnceTheyAreReplaced(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	s := newStoredTable(t)
	s.PutItem("{ns}/ENTITY#alice", "#CONFIG#gpt-4", limits+"\nentity_id S alice\nresource S gpt-4")
	s.PutItem("{ns}/ENTITY#bob", "#CONFIG#gpt-4", limits+"\nentity_id S bob\nresource S gpt-4")
	s.PutItem("{ns}/RESOURCE#gpt-4", "#CONFIG", limits+"\nresource S gpt-4")
	s.PutItem(system, "#CONFIG", limits+"\non_unavailable S allow\naudit_retention_days N 7")
	scopes := []limiter.Scope{{Entity: "alice", Resource: "gpt-4"}, {Entity: "bob", Resource: "gpt-4"}, {Resource: "gpt-4"}, {}}
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
	s.Equal("entities", dynamotest.Collect(t, s.Repo.EntitiesWithLimits(t.Context(), "gpt-4")), []string{"alice", "bob"})
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

// TestBareConfigsAreCountedWhenTheyAreSet, and not counted when they go: the
// count of others must not become too low, which would hide their limits.
func TestBareConfigsAreCountedWhenTheyAreSet(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	bare := func(entity string) limiter.Scope {
		s.PutItem("{ns}/ENTITY#"+entity, "#CONFIG#gpt-4", "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}\nentity_id S "+entity+"\nresource S gpt-4")
		return limiter.Scope{Entity: entity, Resource: "gpt-4"}
	}
	set := func(scope limiter.Scope) {
		t.Helper()
		s.Must(s.Repo.SetConfig(t.Context(), limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}, s.Event("limits_set", scope.Entity, "gpt-4")))
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
