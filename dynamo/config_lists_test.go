package dynamo_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// counted checks how many entities have limits, by resource.
func (s *storedTable) counted(want string) {
	s.Helper()
	s.holds(system, "#ENTITY_CONFIG_RESOURCES", want+"\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
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
