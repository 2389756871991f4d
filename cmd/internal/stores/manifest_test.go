package stores_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// The stores with a module of their own implement ManagedStore.
var _ = []limiter.ManagedStore{(*sqlite.Repository)(nil), (*dynamo.Repository)(nil)}

var (
	bg    = context.Background()
	epoch = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)
)

// managedStores opens a store of each kind that keeps manifests.
var managedStores = map[string]func(t *testing.T) limiter.Repository{
	"memory": func(*testing.T) limiter.Repository { return memory.New(nil) },
	"sqlite": func(t *testing.T) limiter.Repository { t.Helper(); return openSQLite(t) },
	"dynamo": func(t *testing.T) limiter.Repository { t.Helper(); return openDynamo(t, &dynamo.Options{}) },
}

func parse(t *testing.T, text string) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Parse([]byte(text))
	check(t, err)
	return m
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// entityManifest declares n entities with one limit each.
func entityManifest(prefix string, n int, capacity int64) *manifest.Manifest {
	m := &manifest.Manifest{}
	for i := range n {
		s := limiter.Scope{Entity: fmt.Sprint(prefix, i), Resource: "gpt-4"}
		m.Levels = append(m.Levels, limiter.Config{
			Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", capacity)},
		})
	}
	return m
}

func declared(m *manifest.Manifest) map[limiter.Scope]bool {
	set := map[limiter.Scope]bool{}
	for _, level := range m.Levels {
		set[level.Scope] = true
	}
	return set
}

func storeConfig(t *testing.T, repo limiter.Repository, cfg limiter.Config, event string) {
	t.Helper()
	check(t, repo.SetConfig(bg, cfg, limiter.AuditEvent{ID: event, Entity: "x", At: epoch, Details: map[string]any{}}))
}

// managed returns the managed scopes and the stored hash.
func managed(t *testing.T, repo limiter.Repository) (map[limiter.Scope]bool, string) {
	t.Helper()
	scopes, hash, _, err := repo.(limiter.ManagedStore).Managed(bg)
	check(t, err)
	set := map[limiter.Scope]bool{}
	for _, s := range scopes {
		set[s] = true
	}
	return set, hash
}

// checkManaged checks that the levels of a manifest are managed, and no others.
func checkManaged(t *testing.T, repo limiter.Repository, m *manifest.Manifest) {
	t.Helper()
	scopes, hash := managed(t, repo)
	equal(t, "managed", scopes, declared(m))
	equal(t, "hash", hash, m.Hash())
}

// checkInForce checks that the levels of a manifest are stored and managed,
// and no others.
func checkInForce(t *testing.T, repo limiter.Repository, m *manifest.Manifest) {
	t.Helper()
	got, err := manifest.Export(bg, repo, "")
	check(t, err)
	text, err := got.YAML()
	check(t, err)
	want, err := m.YAML()
	check(t, err)
	equal(t, "stored", string(text), string(want))
	checkManaged(t, repo, m)
}
