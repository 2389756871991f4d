package rules

import (
	"cmp"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Windows lists the windows in which stores count usage.
var Windows = []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}

// Snapshots returns what the usage of one hour adds to each window. Counters omit
// limits that were not used.
func Snapshots(account *limiter.Account, u Usage) []limiter.UsageSnapshot {
	parts := make([]limiter.UsageSnapshot, 0, len(Windows))
	for _, w := range Windows {
		start, end := w.Bounds(time.UnixMilli(u.Hour))
		part := limiter.UsageSnapshot{
			Entity: account.Entity, Resource: account.Resource, Window: w, Start: start, End: end,
			Counters: map[string]int64{}, Events: u.Events,
		}

		for i, n := range u.Used {
			if n != 0 {
				part.Counters[account.Limits[i].Name] = n
			}
		}
		for i, n := range u.Spared {
			if n != 0 {
				part.WouldRefuse = AddCount(part.WouldRefuse, account.Limits[i].Name, n)
			}
		}

		parts = append(parts, part)
	}
	return parts
}

// AddCount adds n to a counter. It makes the map if it is nil.
func AddCount(counts map[string]int64, limit string, n int64) map[string]int64 {
	if counts == nil {
		counts = map[string]int64{}
	}
	counts[limit] += n
	return counts
}

// NewestFirst compares snapshots by start, the latest first, then by resource,
// entity and window.
func NewestFirst(a, b limiter.UsageSnapshot) int {
	return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Entity, b.Entity),
		cmp.Compare(a.Window, b.Window))
}

// Deleted returns the event for the deletion of a config. For the system's config
// it adds what the config held.
func Deleted(cfg limiter.Config, ev limiter.AuditEvent) limiter.AuditEvent {
	// The Python library writes the same events to a shared table. Those of other
	// levels have no details there.
	if cfg.Scope != (limiter.Scope{}) {
		return ev
	}

	names := []any{}
	for _, l := range cfg.Limits {
		names = append(names, l.Name)
	}
	ev = With(ev, "limits", names)

	// The map is the copy that With made, so the caller's event stays as it is.
	ev.Details["on_unavailable"] = nil
	if cfg.OnUnavailable != "" {
		ev.Details["on_unavailable"] = string(cfg.OnUnavailable)
	}
	return ev
}

// With returns an event with one more detail. It copies the map of details.
func With(ev limiter.AuditEvent, detail string, value any) limiter.AuditEvent {
	details := map[string]any{detail: value}
	for k, v := range ev.Details {
		if k != detail {
			details[k] = v
		}
	}
	ev.Details = details
	return ev
}

// CloneDetails returns a deep copy of the details of an event.
func CloneDetails(details map[string]any) map[string]any {
	out := make(map[string]any, len(details))
	for k, v := range details {
		out[k] = cloneDetail(v)
	}
	return out
}

func cloneDetail(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CloneDetails(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloneDetail(v[i])
		}
		return out
	}

	// All other details are immutable.
	return v
}
