package limiter

import (
	"context"
	"iter"
	"strings"
	"time"
)

// AuditEvent is a change that was stored.
type AuditEvent struct {
	ID        string         // a ULID, which rises with time
	Action    string         // entity_created, entity_deleted, limits_set or limits_deleted
	Entity    string         // an id, "$SYSTEM", or "$RESOURCE:" and a resource
	Principal string         // who did it, "" if unknown
	Resource  string         // that limits are about; "_default_" for limits of all resources
	At        time.Time      // whole milliseconds when it is made, whole seconds once it is stored
	Details   map[string]any // nil, bool, string, int64, float64, []any and map[string]any
}

// AuditEvents iterates over the changes about an entity, or "$SYSTEM", or
// "$RESOURCE:name", or everything if entity is "", newest first: those older than
// the event with ID after, or all if after is "". On DynamoDB everything is read
// key by key, and fails with an *[InvalidError] beyond 100,000 events.
func (l *RateLimiter) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[AuditEvent, error] {
	if err := validAudited(entity); err != nil {
		return failed[AuditEvent](err)
	}
	return mapped(ctx, "audit events", entity, "", l.repo.AuditEvents(ctx, entity, after))
}

func validAudited(entity string) error {
	if entity == auditSystem || entity == "" {
		return nil
	}
	if resource, ok := strings.CutPrefix(entity, auditResource); ok {
		return validResource(resource)
	}
	return validEntity(entity)
}
