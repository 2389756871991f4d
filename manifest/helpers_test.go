package manifest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// The stores that need no other module implement ManagedStore.
var _ = []limiter.ManagedStore{(*memory.Repository)(nil), (*repotest.Faulty)(nil)}

var bg = context.Background()

func storeConfig(t *testing.T, repo limiter.Repository, cfg limiter.Config, event string) {
	t.Helper()
	check(t, repo.SetConfig(bg, cfg, limiter.AuditEvent{ID: event, Entity: "x", At: epoch, Details: map[string]any{}}))
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

func declared(m *manifest.Manifest) map[limiter.Scope]bool {
	set := map[limiter.Scope]bool{}
	for _, level := range m.Levels {
		set[level.Scope] = true
	}
	return set
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
