package rules

import (
	"cmp"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Windows are those usage is kept in.
var Windows = []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly}

// Snapshots is what usage of one hour adds to each window. Only limits that
// were used are counted.
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
		parts = append(parts, part)
	}
	return parts
}

// NewestFirst orders snapshots by start, and those that start together by
// resource, entity and window.
func NewestFirst(a, b limiter.UsageSnapshot) int {
	return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Window, b.Window))
}

// Deleted is the event of a config that goes, with what it held where the trail
// keeps that.
func Deleted(cfg limiter.Config, ev limiter.AuditEvent) limiter.AuditEvent {
	if cfg.Scope != (limiter.Scope{}) {
		return ev
	}
	names := []any{}
	for _, l := range cfg.Limits {
		names = append(names, l.Name)
	}
	ev = With(ev, "limits", names)
	ev.Details["on_unavailable"] = nil
	if cfg.OnUnavailable != "" {
		ev.Details["on_unavailable"] = string(cfg.OnUnavailable)
	}
	return ev
}

// With is an event with one more detail; the caller's map stays as it is.
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

// Merged is what a scope holds after a change: nil limits and an empty mode
// leave what is stored, and only the system has a mode.
func Merged(stored, change limiter.Config) limiter.Config {
	stored.Scope = change.Scope
	if change.Limits != nil {
		stored.Limits = Sorted(change.Limits)
	}
	if change.OnUnavailable != "" && change.Scope == (limiter.Scope{}) {
		stored.OnUnavailable = change.OnUnavailable
	}
	return stored
}

// Empty tells whether a config holds nothing, and so is not kept.
func Empty(cfg limiter.Config) bool { return len(cfg.Limits) == 0 && cfg.OnUnavailable == "" }

// ScopeName names a scope in an error.
func ScopeName(s limiter.Scope) string {
	switch s.Level() {
	case "entity":
		return "entity " + s.Entity + " and resource " + s.Resource
	case "entity_default":
		return "entity " + s.Entity
	case "resource":
		return "resource " + s.Resource
	}
	return "the system"
}

// CloneDetails copies the maps and lists of an event.
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
	return v
}
