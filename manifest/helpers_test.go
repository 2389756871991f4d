package manifest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/dynamolocal"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// All stores of this module implement ManagedStore.
var _ = []limiter.ManagedStore{
	(*memory.Repository)(nil), (*sqlite.Repository)(nil), (*dynamo.Repository)(nil), (*repotest.Faulty)(nil),
}

var bg = context.Background()

func TestMain(m *testing.M) { os.Exit(shared.Stop(m.Run())) }

var shared = dynamolocal.Share()

// openDynamo opens a new table of DynamoDB Local.
func openDynamo(t *testing.T) (repo *dynamo.Repository, table string, opts *dynamo.Options) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	opts = &dynamo.Options{Endpoint: shared.URL(t), Region: "us-east-1", Timeout: time.Minute}
	table = fmt.Sprintf("manifest-%d", rand.Uint64())
	check(t, dynamo.CreateTable(bg, table, opts))
	repo, err := dynamo.Connect(bg, table, opts)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo, table, opts
}

func openSQLite(t *testing.T) *sqlite.Repository {
	t.Helper()
	repo, err := sqlite.Open(bg, filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

// testScopes lists the scopes of random manifests.
var testScopes = func() []limiter.Scope {
	all := []limiter.Scope{{}}
	for _, entity := range []string{"", "key-1", "12", "user@example.com"} {
		for _, resource := range []string{"", "R", "gpt-4", "a/b"} {
			if s := (limiter.Scope{Entity: entity, Resource: resource}); s != (limiter.Scope{}) {
				all = append(all, s)
			}
		}
	}
	return all
}()

// randomConfig returns a random level, which may be empty.
func randomConfig(rng *rand.Rand, s limiter.Scope) limiter.Config {
	cfg := limiter.Config{Scope: s}
	for _, name := range []string{"rpm", "tpm"} {
		if rng.IntN(3) > 0 {
			cfg.Limits = append(cfg.Limits, limiter.PerMinute(name, 1+rng.Int64N(2)).WithBurst(1+rng.Int64N(2)))
		}
	}
	if s == (limiter.Scope{}) {
		cfg.OnUnavailable = []limiter.OnUnavailable{"", limiter.Allow, limiter.Block}[rng.IntN(3)]
	}
	return cfg
}

// randomManifest declares some of the test scopes.
func randomManifest(rng *rand.Rand) *manifest.Manifest {
	m := &manifest.Manifest{}
	for _, s := range testScopes {
		if rng.IntN(2) == 0 {
			m.Levels = append(m.Levels, randomConfig(rng, s))
		}
	}
	rng.Shuffle(len(m.Levels), func(i, j int) { m.Levels[i], m.Levels[j] = m.Levels[j], m.Levels[i] })
	return m
}

// seedStore stores random limits, and makes a random list of scopes managed.
func seedStore(t *testing.T, rng *rand.Rand, repo limiter.Repository) {
	t.Helper()
	var managed []limiter.Scope
	for i, s := range testScopes {
		if rng.IntN(2) == 0 {
			managed = append(managed, s)
		}
		if rng.IntN(2) == 0 {
			storeConfig(t, repo, randomConfig(rng, s), fmt.Sprintf("01JP%022d", i))
		}
	}
	_, hash, _, err := repo.(limiter.ManagedStore).Managed(bg)
	check(t, err)
	check(t, repo.(limiter.ManagedStore).SetManaged(bg, epoch, hash, "before", "", managed))
}

func storeConfig(t *testing.T, repo limiter.Repository, cfg limiter.Config, event string) {
	t.Helper()
	check(t, repo.SetConfig(bg, cfg, limiter.AuditEvent{ID: event, Entity: "x", At: epoch, Details: map[string]any{}}))
}

// storedConfigs returns the levels of all test scopes that are not empty.
func storedConfigs(t *testing.T, repo limiter.Repository) map[limiter.Scope]limiter.Config {
	t.Helper()
	all := map[limiter.Scope]limiter.Config{}
	for _, s := range testScopes {
		cfg, err := repo.Config(bg, s)
		check(t, err)
		if len(cfg.Limits) > 0 || cfg.OnUnavailable != "" {
			all[s] = cfg
		}
	}
	return all
}

// managed returns the managed scopes and the stored hash.
func managed(t *testing.T, repo limiter.Repository) (map[limiter.Scope]bool, string) {
	t.Helper()
	scopes, hash, _, err := repo.(limiter.ManagedStore).Managed(bg)
	check(t, err)
	return setOf(scopes), hash
}

func setOf(scopes []limiter.Scope) map[limiter.Scope]bool {
	set := map[limiter.Scope]bool{}
	for _, s := range scopes {
		set[s] = true
	}
	return set
}

// expectedConfigs returns the levels after a manifest is applied.
func expectedConfigs(
	before map[limiter.Scope]limiter.Config, managed map[limiter.Scope]bool, m *manifest.Manifest,
) map[limiter.Scope]limiter.Config {
	after := map[limiter.Scope]limiter.Config{}
	for s, cfg := range before {
		if !managed[s] {
			after[s] = cfg
		}
	}
	for _, level := range m.Levels {
		delete(after, level.Scope)
		if len(level.Limits) > 0 || level.OnUnavailable != "" {
			after[level.Scope] = level
		}
	}
	return after
}

func declared(m *manifest.Manifest) map[limiter.Scope]bool {
	set := map[limiter.Scope]bool{}
	for _, level := range m.Levels {
		set[level.Scope] = true
	}
	return set
}

// checkApplied checks that a manifest is applied, and that another plan finds
// no changes.
func checkApplied(t *testing.T, repo limiter.Repository, m *manifest.Manifest, want map[limiter.Scope]limiter.Config) {
	t.Helper()
	equal(t, "stored", storedConfigs(t, repo), want)
	scopes, hash := managed(t, repo)
	equal(t, "managed", scopes, declared(m))
	equal(t, "hash", hash, m.Hash())
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	if !again.Done() || len(again.Changes) > 0 || again.Same != len(m.Levels) {
		t.Errorf("the next plan has %s, adopts %v, releases %v, finds %d of %d the same",
			formatChanges(again.Changes), again.Adopted, again.Released, again.Same, len(m.Levels))
	}
}

// formatChanges returns one line for each change.
func formatChanges(changes []manifest.Change) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines,
			strings.TrimSpace(fmt.Sprint(c.Action, " ", manifest.Level(c.Scope), " ", manifest.Target(c.Scope))))
	}
	return strings.Join(lines, "\n")
}

// differingScopes returns the test scopes whose levels differ.
func differingScopes(a, b map[limiter.Scope]limiter.Config) (all []limiter.Scope) {
	return slices.DeleteFunc(slices.Clone(testScopes), func(s limiter.Scope) bool {
		return cmp.Equal(a[s], b[s], cmpopts.EquateEmpty())
	})
}
