package limiter

import (
	"context"
	"iter"
	"strings"
	"time"
)

// AuditEvent describes one stored change.
type AuditEvent struct {
	ID string // a ULID, which sorts by time
	// Action is entity_created, entity_deleted, limits_set, limits_deleted,
	// disabled, enabled, bucket_reset or bucket_topped_up.
	Action    string
	Entity    string         // an entity ID, "$SYSTEM", or "$RESOURCE:" and a resource
	Principal string         // the author, "" if unknown
	Resource  string         // the resource of changed limits; "_default_" for limits of all resources
	At        time.Time      // in whole milliseconds when made, in whole seconds once stored
	Details   map[string]any // nil, bool, string, int64, float64, []any and map[string]any
}

// AuditEvents iterates over the changes of an entity, of "$SYSTEM" or of
// "$RESOURCE:name", newest first. If entity is "", it iterates over all changes.
// If after is not "", it returns only events older than the event with that ID.
// On DynamoDB, iterating over all changes reads every key and fails with an
// *[InvalidError] beyond 100,000 events.
func (l *RateLimiter) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[AuditEvent, error] {
	if err := validAudited(entity); err != nil {
		return errorSeq[AuditEvent](err)
	}
	return translateErrors(ctx, "audit events", entity, "", l.repo.AuditEvents(ctx, entity, after))
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

// Window is the length of a usage snapshot.
type Window string

// The windows of usage snapshots, all in UTC.
const (
	Hourly  Window = "hourly"
	Daily   Window = "daily"
	Monthly Window = "monthly"
)

// Bounds returns the first and the last second of the window that contains t.
// For an unknown window, Bounds returns t, t.
func (w Window) Bounds(t time.Time) (start, end time.Time) {
	t = t.UTC()
	year, month, day := t.Date()
	switch w {
	case Hourly:
		start = time.Date(year, month, day, t.Hour(), 0, 0, 0, time.UTC)
		return start, start.Add(time.Hour - time.Second)
	case Daily:
		start = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return start, start.Add(24*time.Hour - time.Second)
	case Monthly:
		start = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0).Add(-time.Second)
	}
	return t, t
}

// UsageQuery selects usage snapshots.
type UsageQuery struct {
	Entity, Resource string    // "" for all
	Window           Window    // "" for all
	From, To         time.Time // bounds of Start, inclusive; a zero time is no bound
}

// Validate checks q. The error is an *[InvalidError].
func (q UsageQuery) Validate() error {
	if q.Entity != "" {
		if err := validEntity(q.Entity); err != nil {
			return err
		}
	}

	if q.Resource != "" {
		if err := validResource(q.Resource); err != nil {
			return err
		}
	}

	switch q.Window {
	case "", Hourly, Daily, Monthly:
		return nil
	}
	return invalid("window", string(q.Window), `must be "hourly", "daily" or "monthly"`)
}

// Match reports whether q selects s.
func (q UsageQuery) Match(s UsageSnapshot) bool {
	return (q.Entity == "" || q.Entity == s.Entity) && (q.Resource == "" || q.Resource == s.Resource) &&
		(q.Window == "" || q.Window == s.Window) &&
		(q.From.IsZero() || !s.Start.Before(q.From)) && (q.To.IsZero() || !s.Start.After(q.To))
}

// UsageSnapshot is the usage of one resource by one entity in one window.
type UsageSnapshot struct {
	Entity, Resource string           // who used what
	Window           Window           // an hour, a day or a month
	Start, End       time.Time        // the first and the last second of the window
	Counters         map[string]int64 // net tokens by limit; limits with net 0 are absent
	Events           int64            // bucket changes counted in this snapshot
	// WouldRefuse counts the charges that each shadow limit would have refused; nil
	// if there were none.
	WouldRefuse map[string]int64
}

// Usage iterates over the snapshots that q selects, newest first. A query that
// names neither an entity nor a resource selects all usage of the namespace. On
// DynamoDB such a query reads the keys of every item of every entity, and fails
// with an *[InvalidError] if it finds more than 100,000 snapshots.
func (l *RateLimiter) Usage(ctx context.Context, q UsageQuery) iter.Seq2[UsageSnapshot, error] {
	if err := q.Validate(); err != nil {
		return errorSeq[UsageSnapshot](err)
	}
	return translateErrors(ctx, "usage", q.Entity, q.Resource, l.repo.Usage(ctx, q))
}
