package dynamo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

var (
	perMinute = limiter.PerMinute("rpm", 60)
	bursts    = limiter.Custom("tpm.out-1_x", 15_000, 10_000, 60e9)
)

const system, systemConfig = "{ns}/SYSTEM#", "#CONFIG"

func TestConfigOfAnEntityIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{Entity: "alice", Resource: "openai/gpt-4"}, perMinute, bursts)
	s.set(limiter.Scope{Entity: "alice"}, perMinute)
	s.holds("{ns}/ENTITY#alice", "#CONFIG#openai/gpt-4", `
		entity_id S alice
		resource S openai/gpt-4
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		l_tpm.out-1_x_cp N 15000
		l_tpm.out-1_x_ra N 10000
		l_tpm.out-1_x_rp N 60
		GSI3PK S {ns}/ENTITY_CONFIG#openai/gpt-4
		GSI3SK S alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice`)
	s.holds("{ns}/ENTITY#alice", "#CONFIG#_default_", `
		entity_id S alice
		resource S _default_
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI3PK S {ns}/ENTITY_CONFIG#_default_
		GSI3SK S alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice`)
	s.holds(system, "#ENTITY_CONFIG_RESOURCES", `
		openai/gpt-4 N 1
		_default_ N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

func TestConfigOfAResourceIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{Resource: "b"}, perMinute)
	s.set(limiter.Scope{Resource: "openai/gpt-4"}, bursts)
	s.set(limiter.Scope{Resource: "openai/gpt-4"}, perMinute)
	s.holds("{ns}/RESOURCE#openai/gpt-4", "#CONFIG", `
		resource S openai/gpt-4
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI4PK S {ns}
		GSI4SK S {ns}/RESOURCE#openai/gpt-4`)
	s.holds(system, "#RESOURCES", `
		resources SS b,openai/gpt-4
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.ok(s.deleteConfig(limiter.Scope{Resource: "b"}))
	s.ok(s.deleteConfig(limiter.Scope{Resource: "openai/gpt-4"}))
	s.lacks("{ns}/RESOURCE#openai/gpt-4", "#CONFIG")
	s.holds(system, "#RESOURCES", `
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	names, err := s.repo.ResourcesWithDefaults(t.Context())
	s.ok(err)
	s.equal("resources", len(names), 0)
}

func TestLimitsDeletedByTwoAreDeletedByOne(t *testing.T) {
	t.Parallel()
	for _, scope := range limiter.Precedence("alice", "gpt-4") {
		t.Run(scope.Level(), func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.write(system, systemConfig, "audit_retention_days N 30")
			s.set(scope, perMinute)
			before := len(gathered(t, s.repo.AuditEvents(t.Context(), "x", "")))
			s.wire.before(isTransaction, func() {
				s.wire.cut(nil)
				s.ok(s.deleteConfig(scope))
			})
			if err := s.deleteConfig(scope); !errors.Is(err, limiter.ErrNotFound) {
				t.Errorf("error %v, want not found", err)
			}
			s.equal("new events", len(gathered(t, s.repo.AuditEvents(t.Context(), "x", "")))-before, 1)
		})
	}
}

func TestReplacedLimitsAreCountedOnceAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	s.set(scope, bursts)
	s.set(scope, perMinute)
	s.set(limiter.Scope{Entity: "bob", Resource: "gpt-4"}, perMinute)
	s.holds("{ns}/ENTITY#alice", "#CONFIG#gpt-4", `
		entity_id S alice
		resource S gpt-4
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI3PK S {ns}/ENTITY_CONFIG#gpt-4
		GSI3SK S alice
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#alice`)
	s.counted("gpt-4 N 2")
	s.ok(s.deleteConfig(scope))
	s.counted("gpt-4 N 1")
	s.ok(s.deleteConfig(limiter.Scope{Entity: "bob", Resource: "gpt-4"}))
	s.counted("")
}

func TestLimitsDeletedWhileTheyAreReplacedAreCountedAgain(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	s.set(scope, bursts)
	replacing := func(c *wireCall) bool { return isTransaction(c) && strings.Contains(c.body, `"attribute_exists(`) }
	s.wire.before(replacing, func() {
		s.wire.cut(nil)
		s.ok(s.deleteConfig(scope))
	})
	s.set(scope, perMinute)
	s.counted("gpt-4 N 1")
	cfg, err := s.repo.Config(t.Context(), scope)
	s.ok(err)
	s.equal("limits", cfg.Limits, []limiter.Limit{perMinute})
}

func TestItemWithoutLimitsOrModeIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.write("{ns}/ENTITY#alice", "#CONFIG#_default_", "entity_id S alice\nconfig_version N 1")
	s.write("{ns}/RESOURCE#gpt-4", "#CONFIG", "resource S gpt-4")
	s.write(system, systemConfig, "audit_retention_days N 30\non_unavailable S maybe")
	for _, scope := range []limiter.Scope{{Entity: "alice"}, {Resource: "gpt-4"}, {}} {
		if err := s.deleteConfig(scope); !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("%s: error %v, want not found", scope.Level(), err)
		}
		cfg, err := s.repo.Config(t.Context(), scope)
		s.ok(err)
		s.equal("config", cfg, limiter.Config{Scope: scope})
	}
}

func TestDamagedLimitsAreNamedAndCanBeReplacedOrDeleted(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"l_rpm_cp N 60", "l_rpm_cp N 60\nl_rpm_ra N 0\nl_rpm_rp N 60", "l_rpm_cp S 60\nl_rpm_ra N 60\nl_rpm_rp N 60", "l_a_b_cp N 1.5\nl_a_b_ra N 1\nl_a_b_rp N 1"} {
		for _, scope := range limiter.Precedence("alice", "gpt-4") {
			t.Run(scope.Level(), func(t *testing.T) {
				t.Parallel()
				s := newStoredTable(t)
				pk, sk := "{ns}/SYSTEM#", "#CONFIG"
				switch {
				case scope.Entity != "":
					pk, sk = "{ns}/ENTITY#alice", "#CONFIG#gpt-4"
					if scope.Resource == "" {
						sk = "#CONFIG#_default_"
					}
				case scope.Resource != "":
					pk = "{ns}/RESOURCE#gpt-4"
				}
				s.write(pk, sk, damage)
				_, err := s.repo.Config(t.Context(), scope)
				bad, ok := errors.AsType[*limiter.CorruptError](err)
				if !ok || !strings.Contains(bad.Item, strings.ReplaceAll(pk, "{ns}", s.ns)+" "+sk) {
					t.Errorf("error %v, want a *CorruptError that names the item", err)
				}
				s.set(scope, perMinute)
				cfg, err := s.repo.Config(t.Context(), scope)
				s.ok(err)
				s.equal("limits", cfg.Limits, []limiter.Limit{perMinute})
				s.write(pk, sk, damage)
				s.ok(s.deleteConfig(scope))
				s.lacks(pk, sk)
			})
		}
	}
}

// TestChangeWhoseFateIsUnknownRulesTheNextCharge loses the answer to a change
// that was made.
func TestChangeWhoseFateIsUnknownRulesTheNextCharge(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Resource: "gpt-4"}
	s.set(scope, bursts)
	capacity := func() int64 {
		out, err := s.repo.Peek(t.Context(), dawn, limiter.Charge{Entity: "alice", Resource: "gpt-4"})
		s.ok(err)
		return out.Self.Account.Limits[0].Capacity
	}
	s.equal("capacity", capacity(), bursts.Capacity)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.wire.cut(func(c *wireCall) (*http.Response, error) {
		reply, err := c.send()
		if !isTransaction(c) || err != nil {
			return reply, err
		}
		cancel()
		return nil, errors.Join(ctx.Err(), reply.Body.Close())
	})
	if err := s.repo.SetConfig(ctx, limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}, s.event("limits_set", "x", "")); err == nil {
		t.Error("the answer was not lost")
	}
	s.wire.cut(nil)
	s.equal("capacity", capacity(), perMinute.Capacity)
}
