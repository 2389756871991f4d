package repotest

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func auditChecks() []check {
	return []check{
		{"every change leaves its event, newest first", auditNewestFirst},
		{"an event is stored as given", auditStored},
		{"after an ID only older events follow", auditAfter},
		{"events are ordered by ID, not by arrival", auditByID},
		{"events of everything, newest first", auditEverything},
		{"the event of a deleted entity counts its records", auditRecordsDeleted},
		{"deleted system limits are named", auditSystemDeleted},
		{"a long trail is complete", auditMany},
		{"details are not shared with the caller", auditNotShared},
		{"an event is dated by its whole second", auditWholeSecond},
	}
}

// actions returns the action and entity of each event of an entity.
func (f *fixture) actions(entity, after string) (all []string) {
	f.Helper()
	for _, ev := range f.audit(entity, after) {
		all = append(all, ev.Action+" "+ev.Entity)
	}
	return all
}

func (f *fixture) newest(entity string) limiter.AuditEvent {
	f.Helper()
	return first(f, "AuditEvents of "+entity, f.audit(entity, ""))
}

func auditNewestFirst(f *fixture) {
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.setDefaults(perMinute60)
	f.setMode(limiter.Allow)
	f.deleteConfig(limiter.Scope{Entity: "key-1"})
	f.deleteConfig(limiter.Scope{Resource: model})
	f.deleteConfig(limiter.Scope{})
	f.deleteEntity("key-1")

	f.equal("of the entity", f.actions("key-1", ""), []string{
		"entity_deleted key-1", "limits_deleted key-1", "limits_set key-1", "entity_created key-1",
	})
	f.equal("of the resource", f.actions("$RESOURCE:"+model, ""), []string{
		"limits_deleted $RESOURCE:" + model, "limits_set $RESOURCE:" + model,
	})
	f.equal("of the system", f.actions("$SYSTEM", ""), []string{"limits_deleted $SYSTEM", "limits_set $SYSTEM"})
	f.equal("of an unknown entity", f.actions("key-2", ""), []string(nil))
}

func auditStored(f *fixture) {
	ev := f.event("limits_set", "key-1")
	ev.Resource, ev.Principal, ev.At = model, "arn:aws:iam::1:user/ü", epoch.Add(time.Hour)

	// A store that decodes numbers as float64 changes those beyond 2^53.
	ev.Details = map[string]any{
		"nil": nil, "true": true, "text": "a \"quoted\" ü", "whole": int64(1<<53 + 1), "negative": int64(-1),
		"part": 0.5,
		"list": []any{int64(1), "two", nil, map[string]any{"three": int64(3)}},
		"map":  map[string]any{"list": []any{}, "map": map[string]any{}},
	}

	cfg := limiter.Config{Scope: limiter.Scope{Entity: "key-1", Resource: model}, Limits: []limiter.Limit{perMinute60}}
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, cfg, ev))
	f.equal("events", f.audit("key-1", ""), []limiter.AuditEvent{ev})

	anonymous := f.event("entity_created", "key-2")
	anonymous.Principal = ""
	f.ok("CreateEntity",
		f.repo.CreateEntity(f.ctx, limiter.Entity{ID: "key-2", Name: "key-2", CreatedAt: epoch}, anonymous))
	f.equal("events", f.audit("key-2", ""), []limiter.AuditEvent{anonymous})
}

func auditAfter(f *fixture) {
	s := limiter.Scope{Entity: "key-1"}
	f.setLimits(s, perMinute60)
	f.deleteConfig(s)

	// The event of another entity has an ID in between.
	f.setLimits(limiter.Scope{Entity: "key-2"}, perMinute60)
	f.setLimits(s, perMinute60)

	all := f.audit("key-1", "")
	if len(all) != 3 {
		f.Fatalf("%d events, want 3", len(all))
	}

	f.equal("before the newest", f.audit("key-1", all[0].ID), all[1:])
	f.equal("before the second", f.audit("key-1", all[1].ID), all[2:])
	f.equal("before the oldest", f.audit("key-1", all[2].ID), []limiter.AuditEvent(nil))

	// Event 3 belongs to key-2: a cursor is a place in the order, and need not
	// be an event of the entity.
	f.equal("before one that is not there", f.audit("key-1", eventID(3)), all[1:])
	f.equal("before a later one", f.audit("key-1", eventID(99)), all)
}

// auditByID covers processes that make IDs from different clocks.
func auditByID(f *fixture) {
	for _, n := range []int64{50, 30, 70, 60} {
		ev := f.event(fmt.Sprint(n), "key-1")
		ev.ID = eventID(n)
		f.ok("SetConfig",
			f.repo.SetConfig(f.ctx,
				limiter.Config{Scope: limiter.Scope{Entity: "key-1"}, Limits: []limiter.Limit{perMinute60}}, ev))
	}

	f.equal("events", f.actions("key-1", ""), []string{"70 key-1", "60 key-1", "50 key-1", "30 key-1"})
	f.equal("older events", f.actions("key-1", eventID(60)), []string{"50 key-1", "30 key-1"})
}

func auditEverything(f *fixture) {
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	f.setLimits(limiter.Scope{Entity: "key-2"}, perMinute60)
	f.setDefaults(perMinute60)
	f.setMode(limiter.Allow)
	f.deleteEntity("key-1")

	f.equal("of everything", f.actions("", ""), []string{
		"entity_deleted key-1", "limits_set $SYSTEM", "limits_set $RESOURCE:" + model, "limits_set key-2",
		"entity_created key-1",
	})

	all := f.audit("", "")
	f.equal("older ones", f.audit("", all[1].ID), all[2:])
	f.equal("before the oldest", f.audit("", all[4].ID), []limiter.AuditEvent(nil))
}

func auditRecordsDeleted(f *fixture) {
	f.setDefaults(perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	f.take(0, ask("key-1", rpm(1)))

	ev := f.event("entity_deleted", "key-1")
	ev.Details["reason"] = "test"
	f.ok("DeleteEntity", f.repo.DeleteEntity(f.ctx, "key-1", ev))

	// The entity has a record and a bucket. Stores differ in what else they
	// count.
	got := f.newest("key-1").Details
	if n, ok := got["records_deleted"].(int64); !ok || n < 2 {
		f.Errorf("records_deleted is %v (%T), want an int64 of at least 2", got["records_deleted"],
			got["records_deleted"])
	}

	// The store adds the number to a copy, since methods do not change their
	// arguments.
	f.equal("the caller's details", got["reason"], any("test"))
	f.equal("the caller's map", ev.Details, map[string]any{"reason": "test"})
}

func auditSystemDeleted(f *fixture) {
	last := func() map[string]any { return f.newest("$SYSTEM").Details }

	f.setLimits(limiter.Scope{}, limiter.PerMinute("tpm", 1), perMinute60)
	f.setMode(limiter.Allow)
	f.deleteConfig(limiter.Scope{})
	f.equal("details", last(), map[string]any{"limits": []any{"rpm", "tpm"}, "on_unavailable": "allow"})

	f.setLimits(limiter.Scope{}, perMinute60)
	f.deleteConfig(limiter.Scope{})
	f.equal("details", last(), map[string]any{"limits": []any{"rpm"}, "on_unavailable": nil})

	f.setMode(limiter.Block)
	f.deleteConfig(limiter.Scope{})
	f.equal("details", last(), map[string]any{"limits": []any{}, "on_unavailable": "block"})
}

func auditMany(f *fixture) {
	for range 130 {
		f.setDefaults(perMinute60)
	}

	all := f.audit("$RESOURCE:"+model, "")
	f.equal("number of events", len(all), 130)
	for i, ev := range all {
		f.equal("ID", ev.ID, eventID(int64(130-i)))
	}
}

func auditNotShared(f *fixture) {
	ev := f.event("limits_set", "key-1")

	inner := map[string]any{"a": int64(1)}
	list := []any{"x"}
	ev.Details = map[string]any{"map": inner, "list": list}

	cfg := limiter.Config{Scope: limiter.Scope{Entity: "key-1"}, Limits: []limiter.Limit{perMinute60}}
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, cfg, ev))

	want := map[string]any{"map": map[string]any{"a": int64(1)}, "list": []any{"x"}}
	inner["a"], list[0], ev.Details["new"] = int64(2), "y", true

	got := f.newest("key-1").Details
	f.equal("details", got, want)

	clear(got)
	f.equal("details", f.newest("key-1").Details, want)
}

// auditWholeSecond stores an event with milliseconds. The store needs them for
// other effects of the call, and drops them from the event.
func auditWholeSecond(f *fixture) {
	late := func(action string) limiter.AuditEvent {
		ev := f.event(action, "key-1")
		ev.At = at(1_999 * time.Millisecond)
		return ev
	}

	own := limiter.Scope{Entity: "key-1", Resource: model}
	e := limiter.Entity{ID: "key-1", Name: "key-1", CreatedAt: epoch}
	f.ok("CreateEntity", f.repo.CreateEntity(f.ctx, e, late("entity_created")))
	f.ok("SetConfig",
		f.repo.SetConfig(f.ctx, limiter.Config{Scope: own, Limits: []limiter.Limit{perMinute60}}, late("limits_set")))
	f.ok("DeleteConfig", f.repo.DeleteConfig(f.ctx, own, late("limits_deleted")))
	f.ok("DeleteEntity", f.repo.DeleteEntity(f.ctx, "key-1", late("entity_deleted")))

	events := f.audit("key-1", "")
	f.equal("number of events", len(events), 4)
	for _, ev := range events {
		f.equal("time of "+ev.Action, ev.At, at(time.Second))
	}
}
