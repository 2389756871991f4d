package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// TestBareConfigsOfPythonAreListedOnceTheyAreReplaced: its provisioner writes
// items that are in no index and no registry.
func TestBareConfigsOfPythonAreListedOnceTheyAreReplaced(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	s := newStoredTable(t)
	s.write("{ns}/ENTITY#alice", "#CONFIG#gpt-4", limits+"\nentity_id S alice\nresource S gpt-4")
	s.write("{ns}/ENTITY#bob", "#CONFIG#gpt-4", limits+"\nentity_id S bob\nresource S gpt-4")
	s.write("{ns}/RESOURCE#gpt-4", "#CONFIG", limits+"\nresource S gpt-4")
	s.write(system, "#CONFIG", limits+"\non_unavailable S allow\naudit_retention_days N 7")
	scopes := []limiter.Scope{{Entity: "alice", Resource: "gpt-4"}, {Entity: "bob", Resource: "gpt-4"}, {Resource: "gpt-4"}, {}}
	listed := func(want bool) {
		t.Helper()
		for _, scope := range scopes {
			cfg, got, err := s.repo.ConfigListed(t.Context(), scope)
			s.ok(err)
			s.equal("limits", cfg.Limits, []limiter.Limit{perMinute})
			s.equal("listed", got, want)
		}
	}
	listed(false)
	for range 2 {
		for _, scope := range scopes {
			cfg := limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}
			s.ok(s.repo.ReplaceConfig(t.Context(), cfg, s.event("limits_set", "alice", "gpt-4")))
		}
	}
	listed(true)
	s.counted("gpt-4 N 2")
	s.equal("entities", gathered(t, s.repo.EntitiesWithLimits(t.Context(), "gpt-4")), []string{"alice", "bob"})
	names, err := s.repo.ResourcesWithDefaults(t.Context())
	s.ok(err)
	s.equal("resources", names, []string{"gpt-4"})
	s.holds(system, "#CONFIG", `
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
		s.write("{ns}/ENTITY#"+entity, "#CONFIG#gpt-4", "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}\nentity_id S "+entity+"\nresource S gpt-4")
		return limiter.Scope{Entity: entity, Resource: "gpt-4"}
	}
	set := func(scope limiter.Scope) {
		t.Helper()
		s.ok(s.repo.SetConfig(t.Context(), limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}, s.event("limits_set", scope.Entity, "gpt-4")))
	}
	set(limiter.Scope{Entity: "alice", Resource: "gpt-4"})
	s.ok(s.repo.DeleteConfig(t.Context(), bare("bob"), s.event("limits_deleted", "bob", "gpt-4")))
	s.counted("gpt-4 N 1")
	set(bare("carol"))
	s.counted("gpt-4 N 2")
	s.ok(s.repo.DeleteEntity(t.Context(), "carol", s.event("entity_deleted", "carol", "")))
	s.counted("gpt-4 N 1")
	s.equal("entities", gathered(t, s.repo.EntitiesWithLimits(t.Context(), "gpt-4")), []string{"alice"})
}

func TestReplacedSystemThatMeetsRetentionKeepsIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.write(system, systemConfig, "on_unavailable S allow")
	s.wire.before(isTransaction, func() { s.change(system, systemConfig, "audit_retention_days", "30") })
	cfg := limiter.Config{Limits: []limiter.Limit{perMinute}}
	s.ok(s.repo.ReplaceConfig(t.Context(), cfg, s.event("limits_set", "$SYSTEM", "")))
	s.holds(system, systemConfig, `
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		audit_retention_days N 30
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}
