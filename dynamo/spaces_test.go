package dynamo_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// What people store must not end up in a namespace that another process has
// purged, where no purge would find it.
func TestNothingIsStoredInAPurgedNamespace(t *testing.T) {
	table := dynamotest.NewTable(t)
	ours, others := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	space, err := ours.RegisterNamespace(t.Context(), start, "tenant")
	must(t, err)
	view, err := ours.Namespace(t.Context(), "tenant")
	must(t, err)
	setDefaults(t, view, perMinute60)
	must(t, others.DeleteNamespace(t.Context(), start, "tenant"))
	must(t, others.PurgeNamespace(t.Context(), space.ID))
	before := len(dynamotest.Scan(t, table))
	cfg := limiter.Config{Scope: limiter.Scope{Resource: model}, Limits: []limiter.Limit{perMinute60}}
	for what, err := range map[string]error{
		"SetConfig":    view.SetConfig(t.Context(), cfg, event("limits_set")),
		"DeleteConfig": view.DeleteConfig(t.Context(), cfg.Scope, event("limits_deleted")),
		"CreateEntity": view.CreateEntity(t.Context(), limiter.Entity{ID: "alice", CreatedAt: start}, event("entity_created")),
		"DeleteEntity": view.DeleteEntity(t.Context(), "alice", event("entity_deleted")),
	} {
		if !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", what, err)
		}
	}
	if after := len(dynamotest.Scan(t, table)); after != before {
		t.Errorf("%d items are left, want %d", after, before)
	}
}
