package dynamo_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestLimitsThatWereNotCountedLeaveNoNegativeCount: Python's provisioner writes
// bare items, and does not count them.
func TestLimitsThatWereNotCountedLeaveNoNegativeCount(t *testing.T) {
	t.Parallel()
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\nGSI4PK S {ns}"
	for name, registry := range map[string]string{"no registry": "", "not in it": "other N 1", "nothing left": "gpt-4 N 0", "less than nothing": "gpt-4 N -2"} {
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

// TestEntitiesCountedAtOnceAreAllCounted: all of them write the same registry
// item, so that transactions are in each other's way.
func TestEntitiesCountedAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	each := func(do func(cfg limiter.Config, ev limiter.AuditEvent) error) {
		var all sync.WaitGroup
		for i := range 8 {
			id := fmt.Sprintf("key-%d", i)
			ev := s.Event("limits_set", id, "gpt-4")
			all.Go(func() {
				cfg := limiter.Config{Scope: limiter.Scope{Entity: id, Resource: "gpt-4"}, Limits: []limiter.Limit{perMinute}}
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
