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

// The stores of this module can all be the target of a manifest.
var _ = []limiter.ManagedStore{(*memory.Repository)(nil), (*sqlite.Repository)(nil), (*dynamo.Repository)(nil), (*repotest.Faulty)(nil)}

var bg = context.Background()

func TestMain(m *testing.M) { os.Exit(shared.Stop(m.Run())) }

var shared = dynamolocal.Share()

// onTable is a table of DynamoDB Local.
func onTable(t *testing.T) (repo *dynamo.Repository, table string, opts *dynamo.Options) {
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

func onFile(t *testing.T) *sqlite.Repository {
	t.Helper()
	repo, err := sqlite.Open(bg, filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	return repo
}

// places are all scopes of tests that draw lots.
var places = func() []limiter.Scope {
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

// draw is what a scope may hold, nothing if it is empty.
func draw(rng *rand.Rand, s limiter.Scope) limiter.Config {
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

// drawManifest declares some places.
func drawManifest(rng *rand.Rand) *manifest.Manifest {
	m := &manifest.Manifest{}
	for _, s := range places {
		if rng.IntN(2) == 0 {
			m.Levels = append(m.Levels, draw(rng, s))
		}
	}
	rng.Shuffle(len(m.Levels), func(i, j int) { m.Levels[i], m.Levels[j] = m.Levels[j], m.Levels[i] })
	return m
}

// furnish stores limits in some places, some of which are managed.
func furnish(t *testing.T, rng *rand.Rand, repo limiter.Repository) {
	t.Helper()
	var managed []limiter.Scope
	for i, s := range places {
		if rng.IntN(2) == 0 {
			managed = append(managed, s)
		}
		if rng.IntN(2) == 0 {
			store(t, repo, draw(rng, s), fmt.Sprintf("01JP%022d", i))
		}
	}
	_, hash, _, err := repo.(limiter.ManagedStore).Managed(bg)
	check(t, err)
	check(t, repo.(limiter.ManagedStore).SetManaged(bg, epoch, hash, "before", "", managed))
}

func store(t *testing.T, repo limiter.Repository, cfg limiter.Config, event string) {
	t.Helper()
	check(t, repo.SetConfig(bg, cfg, limiter.AuditEvent{ID: event, Entity: "x", At: epoch, Details: map[string]any{}}))
}

// stored is what all places hold.
func stored(t *testing.T, repo limiter.Repository) map[limiter.Scope]limiter.Config {
	t.Helper()
	all := map[limiter.Scope]limiter.Config{}
	for _, s := range places {
		cfg, err := repo.Config(bg, s)
		check(t, err)
		if len(cfg.Limits) > 0 || cfg.OnUnavailable != "" {
			all[s] = cfg
		}
	}
	return all
}

// managed is what the store remembers.
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

// wanted is what places hold once a manifest is applied.
func wanted(before map[limiter.Scope]limiter.Config, managed map[limiter.Scope]bool, m *manifest.Manifest) map[limiter.Scope]limiter.Config {
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

// reached checks that a manifest is in force, and that another plan finds
// nothing to do.
func reached(t *testing.T, repo limiter.Repository, m *manifest.Manifest, want map[limiter.Scope]limiter.Config) {
	t.Helper()
	equal(t, "stored", stored(t, repo), want)
	scopes, hash := managed(t, repo)
	equal(t, "managed", scopes, declared(m))
	equal(t, "hash", hash, m.Hash())
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	if !again.Done() || len(again.Changes) > 0 || again.Same != len(m.Levels) {
		t.Errorf("the next plan has %s, adopts %v, releases %v, finds %d of %d the same", list(again.Changes), again.Adopted, again.Released, again.Same, len(m.Levels))
	}
}

// list is changes as text.
func list(changes []manifest.Change) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(c.Action, " ", manifest.Level(c.Scope), " ", manifest.Target(c.Scope))))
	}
	return strings.Join(lines, "\n")
}

// differing are the places that two states do not have alike.
func differing(a, b map[limiter.Scope]limiter.Config) (all []limiter.Scope) {
	return slices.DeleteFunc(slices.Clone(places), func(s limiter.Scope) bool { return cmp.Equal(a[s], b[s], cmpopts.EquateEmpty()) })
}
