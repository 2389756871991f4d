package stores_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// TestApplyReachesTheManifest applies random manifests to random stored and
// managed levels.
func TestApplyReachesTheManifest(t *testing.T) {
	for name, runs := range map[string]uint64{"memory": 300, "sqlite": 20, "dynamo": 8} {
		t.Run(name, func(t *testing.T) {
			repo := managedStores[name](t)
			for seed := range runs {
				applyFrom(t, repo, seed)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func applyFrom(t *testing.T, repo limiter.Repository, seed uint64) {
	t.Helper()
	name := fmt.Sprintf("n%d", seed)
	_, err := repo.RegisterNamespace(bg, epoch, name)
	check(t, err)
	view, err := repo.Namespace(bg, name)
	check(t, err)
	rng := rand.New(rand.NewPCG(seed, 1))
	seedStore(t, rng, view)
	m := randomManifest(rng)
	m.Namespace = name
	before := storedConfigs(t, view)
	known, _ := managed(t, view)
	want := expectedConfigs(before, known, m)

	plan, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	equal(t, "stored after a plan", storedConfigs(t, view), before)
	if got, want := len(plan.Changes), len(differingScopes(before, want)); got != want {
		t.Errorf("%d changes, want %d: %+v", got, want, plan.Changes)
	}
	report, err := plan.Apply(bg)
	check(t, err)
	if failed := report.Failed(); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	checkApplied(t, view, m, want)
}

// TestExportAppliesToNothing checks that applying an export changes nothing.
func TestExportAppliesToNothing(t *testing.T) {
	for seed := range uint64(100) {
		repo := memory.New(nil)
		seedStore(t, rand.New(rand.NewPCG(seed, 2)), repo)
		before := storedConfigs(t, repo)
		m, err := manifest.Export(bg, repo, "default")
		check(t, err)
		text, err := m.YAML()
		check(t, err)
		again, err := manifest.Export(bg, repo, "default")
		check(t, err)
		equal(t, "a second time", again, m)
		read := parse(t, string(text))
		equal(t, "read back", read, m)
		equal(t, "namespace", m.Namespace, "default")
		plan, _, err := manifest.Apply(bg, repo, read, nil)
		check(t, err)
		equal(t, "changes", plan.Changes, []manifest.Change{})
		checkApplied(t, repo, read, before)
	}
}

// TestSystemIsReplacedInOneWrite checks that the system is stored as declared,
// even if it changed after the plan was made.
func TestSystemIsReplacedInOneWrite(t *testing.T) {
	rpm, tpm := []limiter.Limit{limiter.PerMinute("rpm", 1)}, []limiter.Limit{limiter.PerMinute("tpm", 2)}
	for name, open := range managedStores {
		t.Run(name, func(t *testing.T) {
			repo := open(t)
			for i, after := range []limiter.Config{
				{Limits: rpm}, {OnUnavailable: limiter.Allow}, {OnUnavailable: limiter.Block, Limits: tpm}, {},
			} {
				name := fmt.Sprint("n", i)
				_, err := repo.RegisterNamespace(bg, epoch, name)
				check(t, err)
				view, err := repo.Namespace(bg, name)
				check(t, err)
				storeConfig(t, view, limiter.Config{OnUnavailable: limiter.Block, Limits: rpm},
					"01JP0000000000000000000001")
				m := &manifest.Manifest{Namespace: name, Levels: []limiter.Config{after}}
				plan, err := manifest.NewPlan(bg, repo, m, nil)
				check(t, err)
				storeConfig(t, view, limiter.Config{OnUnavailable: limiter.Allow, Limits: tpm},
					"01JP0000000000000000000002")
				report, err := plan.Apply(bg)
				check(t, err)
				equal(t, "failed", len(report.Failed()), 0)
				got, err := view.Config(bg, limiter.Scope{})
				check(t, err)
				equal(t, "stored", got, after)
				equal(t, "mode", view.OnUnavailable(), after.OnUnavailable)
				var actions []string
				for ev, err := range view.AuditEvents(bg, "$SYSTEM", "") {
					check(t, err)
					actions = append(actions, ev.Action)
					if limits, said := ev.Details["limits"].([]any); ev.Action == "limits_set" && (!said ||
						len(limits) != len(after.Limits)) {
						t.Errorf("details %v", ev.Details)
					}
				}
				want := "limits_set"
				if len(after.Limits) == 0 && after.OnUnavailable == "" {
					want = "limits_deleted"
				}
				equal(t, "audit events", actions, []string{want})
			}
		})
	}
}

// TestTwoProcessesAtOnce checks that of two applies on a store that processes share, one
// wins and leaves nothing of the other.
func TestTwoProcessesAtOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) [2]limiter.Repository{
		"sqlite": func(t *testing.T) [2]limiter.Repository {
			t.Helper()
			path := filepath.Join(t.TempDir(), "limits.db")
			var both [2]limiter.Repository
			for i := range both {
				repo, err := sqlite.Open(bg, path, nil)
				check(t, err)
				t.Cleanup(func() { _ = repo.Close() })
				both[i] = repo
			}
			return both
		},
		"dynamo": func(t *testing.T) [2]limiter.Repository {
			t.Helper()
			opts := &dynamo.Options{}
			table := createTable(t, opts)
			return [2]limiter.Repository{connect(t, table, opts), connect(t, table, opts)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			repos := open(t)
			var last atomic.Pointer[manifest.Manifest]
			var group sync.WaitGroup
			for i, repo := range repos {
				m := entityManifest(fmt.Sprint("m", i, "-"), 30, int64(i+1))
				group.Go(func() {
					_, report, err := manifest.Apply(bg, repo, m, nil)
					if err != nil || len(report.Failed()) > 0 {
						t.Errorf("error %v, report %+v", err, report)
					}
					last.Store(m)
				})
			}
			group.Wait()
			checkInForce(t, repos[0], last.Load())
		})
	}
}
