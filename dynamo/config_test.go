package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

var (
	perMinute = limiter.PerMinute("rpm", 60)
	bursts    = limiter.Custom("tpm.out-1_x", 15_000, 10_000, 60e9)
)

const system, systemConfig = "{ns}/SYSTEM#", "#CONFIG"

func TestConfigOfAnEntityIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Entity: "alice", Resource: "openai/gpt-4"}, perMinute, bursts)
	s.SetLimits(limiter.Scope{Entity: "alice"}, perMinute)
	s.CheckItem("{ns}/ENTITY#alice", "#CONFIG#openai/gpt-4", `
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
	s.CheckItem("{ns}/ENTITY#alice", "#CONFIG#_default_", `
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
	s.CheckItem(system, "#ENTITY_CONFIG_RESOURCES", `
		openai/gpt-4 N 1
		_default_ N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

func TestConfigOfAResourceIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{Resource: "b"}, perMinute)
	s.SetLimits(limiter.Scope{Resource: "openai/gpt-4"}, bursts)
	s.SetLimits(limiter.Scope{Resource: "openai/gpt-4"}, perMinute)
	s.CheckItem("{ns}/RESOURCE#openai/gpt-4", "#CONFIG", `
		resource S openai/gpt-4
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI4PK S {ns}
		GSI4SK S {ns}/RESOURCE#openai/gpt-4`)
	s.CheckItem(system, "#RESOURCES", `
		resources SS b,openai/gpt-4
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.Must(s.DeleteConfig(limiter.Scope{Resource: "b"}))
	s.Must(s.DeleteConfig(limiter.Scope{Resource: "openai/gpt-4"}))
	s.CheckNoItem("{ns}/RESOURCE#openai/gpt-4", "#CONFIG")
	s.CheckItem(system, "#RESOURCES", `
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	names, err := s.Repo.ResourcesWithDefaults(t.Context())
	s.Must(err)
	s.Equal("resources", len(names), 0)
}

func TestLimitsDeletedByTwoAreDeletedByOne(t *testing.T) {
	t.Parallel()
	for _, scope := range limiter.Precedence("alice", "gpt-4") {
		t.Run(scope.Level(), func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.PutItem(system, systemConfig, "audit_retention_days N 30")
			s.SetLimits(scope, perMinute)
			before := len(dynamotest.Collect(t, s.Repo.AuditEvents(t.Context(), "x", "")))
			s.Wire.Before(isTransaction, func() {
				s.Wire.Intercept(nil)
				s.Must(s.DeleteConfig(scope))
			})
			if err := s.DeleteConfig(scope); !errors.Is(err, limiter.ErrNotFound) {
				t.Errorf("error %v, want not found", err)
			}
			s.Equal("new events", len(dynamotest.Collect(t, s.Repo.AuditEvents(t.Context(), "x", "")))-before, 1)
		})
	}
}

func TestReplacedLimitsAreCountedOnceAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	s.SetLimits(scope, bursts)
	s.SetLimits(scope, perMinute)
	s.SetLimits(limiter.Scope{Entity: "bob", Resource: "gpt-4"}, perMinute)
	s.CheckItem("{ns}/ENTITY#alice", "#CONFIG#gpt-4", `
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
	s.CheckCounts("gpt-4 N 2")
	s.Must(s.DeleteConfig(scope))
	s.CheckCounts("gpt-4 N 1")
	s.Must(s.DeleteConfig(limiter.Scope{Entity: "bob", Resource: "gpt-4"}))
	s.CheckCounts("")
}

func TestLimitsDeletedWhileTheyAreReplacedAreCountedAgain(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	s.SetLimits(scope, bursts)
	replacing := func(c *dynamotest.Call) bool {
		return isTransaction(c) && strings.Contains(c.Body, `"attribute_exists(`)
	}
	s.Wire.Before(replacing, func() {
		s.Wire.Intercept(nil)
		s.Must(s.DeleteConfig(scope))
	})
	s.SetLimits(scope, perMinute)
	s.CheckCounts("gpt-4 N 1")
	cfg, err := s.Repo.Config(t.Context(), scope)
	s.Must(err)
	s.Equal("limits", cfg.Limits, []limiter.Limit{perMinute})
}

func TestItemWithoutLimitsOrModeIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutItem("{ns}/ENTITY#alice", "#CONFIG#_default_", "entity_id S alice\nconfig_version N 1")
	s.PutItem("{ns}/RESOURCE#gpt-4", "#CONFIG", "resource S gpt-4")
	s.PutItem(system, systemConfig, "audit_retention_days N 30\non_unavailable S maybe")
	for _, scope := range []limiter.Scope{{Entity: "alice"}, {Resource: "gpt-4"}, {}} {
		if err := s.DeleteConfig(scope); !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("%s: error %v, want not found", scope.Level(), err)
		}
		cfg, err := s.Repo.Config(t.Context(), scope)
		s.Must(err)
		s.Equal("config", cfg, limiter.Config{Scope: scope})
	}
}

func TestDamagedLimitsAreNamedAndCanBeReplacedOrDeleted(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"l_rpm_cp N 60", "l_rpm_cp N 60\nl_rpm_ra N 0\nl_rpm_rp N 60",
		"l_rpm_cp S 60\nl_rpm_ra N 60\nl_rpm_rp N 60", "l_a_b_cp N 1.5\nl_a_b_ra N 1\nl_a_b_rp N 1",
	} {
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
				s.PutItem(pk, sk, damage)
				_, err := s.Repo.Config(t.Context(), scope)
				bad, ok := errors.AsType[*limiter.CorruptError](err)
				if !ok || !strings.Contains(bad.Item, strings.ReplaceAll(pk, "{ns}", s.NS)+" "+sk) {
					t.Errorf("error %v, want a *CorruptError that names the item", err)
				}
				s.SetLimits(scope, perMinute)
				cfg, err := s.Repo.Config(t.Context(), scope)
				s.Must(err)
				s.Equal("limits", cfg.Limits, []limiter.Limit{perMinute})
				s.PutItem(pk, sk, damage)
				s.Must(s.DeleteConfig(scope))
				s.CheckNoItem(pk, sk)
			})
		}
	}
}

// TestChangeOfUnknownResultAppliesToTheNextCharge loses the reply to a change
// that was executed.
func TestChangeOfUnknownResultAppliesToTheNextCharge(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	scope := limiter.Scope{Resource: "gpt-4"}
	s.SetLimits(scope, bursts)
	capacity := func() int64 {
		out, err := s.Repo.Peek(t.Context(), dynamotest.Dawn, limiter.Charge{Entity: "alice", Resource: "gpt-4"})
		s.Must(err)
		return out.Payers[0].Account.Limits[0].Capacity
	}
	s.Equal("capacity", capacity(), bursts.Capacity)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		reply, err := c.Send()
		if !isTransaction(c) || err != nil {
			return reply, err
		}
		cancel()
		return nil, errors.Join(ctx.Err(), reply.Body.Close())
	})
	if err := s.Repo.SetConfig(
		ctx, limiter.Config{Scope: scope, Limits: []limiter.Limit{perMinute}}, s.Event("limits_set", "x", ""),
	); err == nil {
		t.Error("the answer was not lost")
	}
	s.Wire.Intercept(nil)
	s.Equal("capacity", capacity(), perMinute.Capacity)
}

// Python's provisioner writes bare items and does not count them.
func TestLimitsThatWereNotCountedLeaveNoNegativeCount(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	for name, registry := range map[string]string{
		"no registry": "", "not in it": "other N 1", "nothing left": "gpt-4 N 0",
		"less than nothing": "gpt-4 N -2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.PutItem("{ns}/ENTITY#alice", "#CONFIG#gpt-4", limits)
			if registry != "" {
				s.PutItem(system, "#ENTITY_CONFIG_RESOURCES", registry)
			}
			cfg, err := s.Repo.Config(t.Context(), limiter.Scope{Entity: "alice", Resource: "gpt-4"})
			s.Must(err)
			s.Equal("limits", cfg.Limits, []limiter.Limit{perMinute})
			s.Must(s.DeleteConfig(cfg.Scope))
			if registry == "" {
				s.CheckNoItem(system, "#ENTITY_CONFIG_RESOURCES")
			} else if s.Item(system, "#ENTITY_CONFIG_RESOURCES")["gpt-4"] != nil {
				t.Error("the count is still there")
			}
			s.SetLimits(cfg.Scope, perMinute)
			names, err := s.Repo.ResourcesWithLimits(t.Context())
			s.Must(err)
			if !strings.Contains(fmt.Sprint(names), "gpt-4") {
				t.Errorf("resources with limits are %q, want gpt-4 among them", names)
			}
		})
	}
}

// All entities write the same registry item, so their transactions conflict.
func TestEntitiesCountedAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	each := func(do func(cfg limiter.Config, ev limiter.AuditEvent) error) {
		var all sync.WaitGroup
		for i := range 8 {
			id := fmt.Sprintf("key-%d", i)
			ev := s.Event("limits_set", id, "gpt-4")
			all.Go(func() {
				cfg := limiter.Config{
					Scope: limiter.Scope{Entity: id, Resource: "gpt-4"}, Limits: []limiter.Limit{perMinute},
				}
				if err := do(cfg, ev); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	each(func(cfg limiter.Config, ev limiter.AuditEvent) error { return s.Repo.SetConfig(t.Context(), cfg, ev) })
	s.CheckCounts("gpt-4 N 8")
	each(func(cfg limiter.Config, ev limiter.AuditEvent) error {
		return s.Repo.DeleteConfig(t.Context(), cfg.Scope, ev)
	})
	s.CheckCounts("")
}

func TestEntitiesWithLimitsFollowPages(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	var want []string
	for i := range 9 {
		id := fmt.Sprintf("key-%d", i)
		want = append(want, id)
		s.SetLimits(limiter.Scope{Entity: id}, perMinute)
	}
	s.Wire.PageSize.Store(2)
	seq := s.Repo.EntitiesWithLimits(t.Context(), "")
	s.Equal("entities", dynamotest.Collect(t, seq), want)
	s.Equal("entities, ranged over again", dynamotest.Collect(t, seq), want)
}
