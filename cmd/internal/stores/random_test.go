package stores_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// The tests with random manifests are all here, also those on the memory store alone, since
// they share what follows.

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

// checkApplied checks that a manifest is applied, and that another plan finds
// no changes.
func checkApplied(t *testing.T, repo limiter.Repository, m *manifest.Manifest, want map[limiter.Scope]limiter.Config) {
	t.Helper()
	equal(t, "stored", storedConfigs(t, repo), want)
	checkManaged(t, repo, m)
	again, err := manifest.NewPlan(bg, repo, m, nil)
	check(t, err)
	if !again.Done() || len(again.Changes) > 0 || again.Same != len(m.Levels) {
		t.Errorf("the next plan has %+v, adopts %v, releases %v, finds %d of %d the same",
			again.Changes, again.Adopted, again.Released, again.Same, len(m.Levels))
	}
}

// differingScopes returns the test scopes whose levels differ.
func differingScopes(a, b map[limiter.Scope]limiter.Config) (all []limiter.Scope) {
	return slices.DeleteFunc(slices.Clone(testScopes), func(s limiter.Scope) bool {
		return cmp.Equal(a[s], b[s], cmpopts.EquateEmpty())
	})
}
