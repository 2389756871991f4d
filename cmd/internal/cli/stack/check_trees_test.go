package stack

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestOldTrees checks that an entity is listed exactly if its charges would go further
// with a record of this release.
func TestOldTrees(t *testing.T) {
	repo := memory.New(nil)
	ev := limiter.AuditEvent{At: time.Now(), Details: map[string]any{}}
	for _, e := range []limiter.Entity{
		{ID: "old", Parent: "team", Cascade: true},
		{ID: "new", Parent: "team", Cascade: true, Generation: 1},
		{ID: "loose", Parent: "team"},
		{ID: "team", Parent: "org", Cascade: true},
		{ID: "org"},
		{ID: "a", Parent: "b", Cascade: true},
		{ID: "b", Parent: "a", Cascade: true},
	} {
		if err := repo.CreateEntity(t.Context(), e, ev); err != nil {
			t.Fatal(err)
		}
	}
	found, whole, err := findOldTrees(t.Context(), repo)
	if want := []oldTree{{"default", "old", "org"}}; err != nil || !whole || !cmp.Equal(found, want) {
		t.Errorf("found %v, whole %v, %v; want %v", found, whole, err, want)
	}
}
