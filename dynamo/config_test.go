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

func TestConfigOfTheSystemIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{}, perMinute)
	s.holds(system, systemConfig, `
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.lacks(system, systemConfig)
	s.setMode(limiter.Allow)
	s.holds(system, systemConfig, `
		config_version N 1
		on_unavailable S allow
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// TestSystemKeepsWhatOthersStoredInItsItem: Python forgets for how long audit
// events are to be kept when it sets limits.
func TestSystemKeepsWhatOthersStoredInItsItem(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	const others = "audit_retention_days N 365\nfuture S text\nflag BOOL true\nempty NULL\n"
	s.write(system, systemConfig, others+"on_unavailable S allow\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
	s.set(limiter.Scope{}, perMinute)
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\n"
	const index = "GSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#\n"
	s.holds(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S allow")
	s.equal("mode", s.repo.OnUnavailable(), limiter.Allow)
	s.setMode(limiter.Block)
	s.holds(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S block")
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.holds(system, systemConfig, others+index)
	if err := s.deleteConfig(limiter.Scope{}); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("a second delete: %v, want not found", err)
	}
	s.holds(system, systemConfig, others+index)
}

func TestModeLeavesLimitsAloneEvenDamagedOnes(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.write(system, systemConfig, "l_rpm_cp N 60\nl_rpm_ra S sixty")
	s.setMode(limiter.Allow)
	s.holds(system, systemConfig, `
		l_rpm_cp N 60
		l_rpm_ra S sixty
		on_unavailable S allow
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// TestSystemChangesThatMeetLoseNothing lets something else happen between the
// read and the write of a change.
func TestSystemChangesThatMeetLoseNothing(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]struct {
		other func(s *storedTable)
		want  string
	}{
		"retention appears": {
			func(s *storedTable) { s.change(system, systemConfig, "audit_retention_days", "30") },
			"audit_retention_days N 30\non_unavailable S allow\nfuture S old",
		},
		"mode changes": {
			func(s *storedTable) { s.write(system, systemConfig, "on_unavailable S block\nfuture S old") },
			"on_unavailable S block\nfuture S old",
		},
		"everything goes": {func(s *storedTable) { s.drop(system, systemConfig) }, ""},
		"what is not ours changes": {
			func(s *storedTable) { s.write(system, systemConfig, "on_unavailable S allow\nfuture S new") },
			"on_unavailable S allow\nfuture S new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.write(system, systemConfig, "on_unavailable S allow\nfuture S old\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
			s.wire.before(isTransaction, func() { meet.other(s) })
			s.set(limiter.Scope{}, perMinute)
			s.holds(system, systemConfig, meet.want+`
				l_rpm_cp N 60
				l_rpm_ra N 60
				l_rpm_rp N 60
				config_version N 1
				GSI4PK S {ns}
				GSI4SK S {ns}/SYSTEM#`)
			cfg, err := s.repo.Config(t.Context(), limiter.Scope{})
			s.ok(err)
			s.equal("mode without asking", s.repo.OnUnavailable(), cfg.OnUnavailable)
		})
	}
}

func isTransaction(c *wireCall) bool { return c.op == "TransactWriteItems" }

func TestDeletedSystemLimitsThatMeetRetentionKeepIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{}, perMinute)
	s.wire.before(isTransaction, func() { s.change(system, systemConfig, "audit_retention_days", "30") })
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.holds(system, systemConfig, "audit_retention_days N 30\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
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

// counted checks how many entities have limits, by resource.
func (s *storedTable) counted(want string) {
	s.Helper()
	s.holds(system, "#ENTITY_CONFIG_RESOURCES", want+"\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
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

// TestLimitsThatWereNotCountedLeaveNoNegativeCount: Python's provisioner writes
// bare items, and does not count them.
func TestLimitsThatWereNotCountedLeaveNoNegativeCount(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	for name, registry := range map[string]string{"no registry": "", "not in it": "other N 1", "nothing left": "gpt-4 N 0", "less than nothing": "gpt-4 N -2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.write("{ns}/ENTITY#alice", "#CONFIG#gpt-4", limits)
			if registry != "" {
				s.write(system, "#ENTITY_CONFIG_RESOURCES", registry)
			}
			cfg, err := s.repo.Config(t.Context(), limiter.Scope{Entity: "alice", Resource: "gpt-4"})
			s.ok(err)
			s.equal("limits", cfg.Limits, []limiter.Limit{perMinute})
			s.ok(s.deleteConfig(cfg.Scope))
			if registry == "" {
				s.lacks(system, "#ENTITY_CONFIG_RESOURCES")
			} else if s.item(system, "#ENTITY_CONFIG_RESOURCES")["gpt-4"] != nil {
				t.Error("the count is still there")
			}
			s.set(cfg.Scope, perMinute)
			names, err := s.repo.ResourcesWithLimits(t.Context())
			s.ok(err)
			if !strings.Contains(fmt.Sprint(names), "gpt-4") {
				t.Errorf("resources with limits are %q, want gpt-4 among them", names)
			}
		})
	}
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

// TestModeIsForgottenWhenItIsUnset: another process may have removed it.
func TestModeIsForgottenWhenItIsUnset(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.setMode(limiter.Allow)
	s.drop(system, systemConfig)
	_, err := s.repo.Config(t.Context(), limiter.Scope{})
	s.ok(err)
	s.equal("mode", s.repo.OnUnavailable(), limiter.OnUnavailable(""))
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

// TestEntitiesCountedAtOnceAreAllCounted: all of them write the same registry
// item, so that transactions are in each other's way.
func TestEntitiesCountedAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	each := func(do func(cfg limiter.Config, ev limiter.AuditEvent) error) {
		var all sync.WaitGroup
		for i := range 8 {
			id := fmt.Sprintf("key-%d", i)
			ev := s.event("limits_set", id, "gpt-4")
			all.Go(func() {
				cfg := limiter.Config{Scope: limiter.Scope{Entity: id, Resource: "gpt-4"}, Limits: []limiter.Limit{perMinute}}
				if err := do(cfg, ev); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	each(func(cfg limiter.Config, ev limiter.AuditEvent) error { return s.repo.SetConfig(t.Context(), cfg, ev) })
	s.counted("gpt-4 N 8")
	each(func(cfg limiter.Config, ev limiter.AuditEvent) error {
		return s.repo.DeleteConfig(t.Context(), cfg.Scope, ev)
	})
	s.counted("")
}

func TestEntitiesWithLimitsFollowPages(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	var want []string
	for i := range 9 {
		id := fmt.Sprintf("key-%d", i)
		want = append(want, id)
		s.set(limiter.Scope{Entity: id}, perMinute)
	}
	s.wire.pageCut.Store(2)
	seq := s.repo.EntitiesWithLimits(t.Context(), "")
	s.equal("entities", gathered(t, seq), want)
	s.equal("entities, ranged over again", gathered(t, seq), want)
}
