package stores_test

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// TestLoadKeepsThePromise lets many users share a child and its parent, with
// limits that refuse and estimates that are corrected, and checks every admission.
func TestLoadKeepsThePromise(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { load(t, openSQLite(t), nil) })
	t.Run("dynamo", func(t *testing.T) {
		repo := openDynamo(t, &dynamo.Options{CountCapacity: true})
		load(t, repo, func() loadtest.Usage {
			used := repo.Stats()
			return loadtest.Usage{Requests: used.Requests, ReadUnits: used.ReadUnits, WriteUnits: used.WriteUnits}
		})
	})
}

// load runs the load on a store. A meter says what it used.
func load(t *testing.T, repo limiter.Repository, meter func() loadtest.Usage) {
	t.Helper()
	s := loadtest.Scenario{
		Name: "shared",
		Setup: func(ctx context.Context, test *loadtest.Test) error {
			if _, err := test.CreateEntity(ctx, limiter.Entity{
				ID: "child", Parent: "parent", Cascade: true,
			}); err != nil {
				return err
			}
			return test.SetSystemDefaults(ctx, limiter.PerMinute("rpm", 100), limiter.PerHour("tpm", 1000))
		},
		Classes: []loadtest.Class{{
			Name: "User",
			Tasks: []loadtest.Task{{Run: func(ctx context.Context, u *loadtest.User) error {
				req := limiter.Request{
					Entity: "child", Resource: "api", Consume: limiter.Tokens("rpm", 1).And("tpm", 20),
				}
				return u.Do(ctx, req, func(l *loadtest.Lease) error { return l.Used("tpm", 10+u.Rand.Int64N(25)) })
			}}},
		}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := loadtest.Run(ctx, repo, s, &loadtest.Options{
		Users: 8, SpawnRate: 1000, Slack: 0.02, Interval: 20 * time.Millisecond,
		Meter: meter,
		Report: func(s loadtest.Snapshot) {
			if s.Refused > 100 {
				cancel()
			}
		},
	})
	check(t, err)
	if p := result.Promise; p.Broken > 0 || p.Limits != 4 || p.Checks < 20 {
		t.Errorf("%+v", p)
	}
	if result.Failed > 0 || result.Refused == 0 || result.Admitted < 20 {
		t.Errorf("%d admitted, %d refused, %v", result.Admitted, result.Refused, result.Failures)
	}
	// An acquire and a commit of a cascade are two writes each.
	if u := result.Usage; meter != nil && (u == nil || u.Requests < 2*result.Admitted || u.WriteUnits < 2*float64(result.Admitted)) {
		t.Errorf("used %+v for %d leases", u, result.Admitted)
	}
	for n, err := range repo.Namespaces(t.Context()) {
		check(t, err)
		if n.Name != "default" {
			t.Errorf("namespace %+v is left", n)
		}
	}
}
