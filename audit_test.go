package limiter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
)

func TestEveryChangeIsAudited(t *testing.T) {
	w := start(t)
	w.clock.pass(1500 * time.Millisecond)
	ops := w.As("ops@example.com")
	limit := limiter.PerMinute("tpm", 10).WithBurst(20)
	details := []any{map[string]any{
		"name": "tpm", "capacity": int64(20), "refill_amount": int64(10), "refill_period_seconds": int64(60),
	}}

	_, err := ops.CreateEntity(bg, limiter.Entity{
		ID: alice, Parent: project, Cascade: true, Metadata: map[string]string{"k": "v"},
	})
	check(t, err)
	check(t, ops.SetLimits(bg, alice, resource, limit))
	check(t, ops.SetLimits(bg, alice, "", limit))
	check(t, ops.DeleteLimits(bg, alice, resource))
	check(t, ops.SetResourceDefaults(bg, resource, limit))
	check(t, ops.DeleteResourceDefaults(bg, resource))
	check(t, ops.SetSystemDefaults(bg, limit))
	check(t, ops.SetOnUnavailable(bg, limiter.Allow))
	check(t, ops.DeleteSystemDefaults(bg))
	check(t, ops.DeleteEntity(bg, alice))
	_, err = w.CreateEntity(bg, limiter.Entity{ID: project})
	check(t, err)

	event := func(action, entity, resource string, details map[string]any) limiter.AuditEvent {
		return limiter.AuditEvent{
			Action: action, Entity: entity, Resource: resource, Principal: "ops@example.com",
			At: noon.Add(time.Second), Details: details,
		}
	}
	unsigned := event("entity_created", project, "", map[string]any{
		"name": project, "parent_id": nil, "cascade": false, "metadata": map[string]any{},
	})
	unsigned.Principal = ""
	for about, want := range map[string][]limiter.AuditEvent{
		alice: {
			event("entity_deleted", alice, "", map[string]any{"records_deleted": int64(2)}),
			event("limits_deleted", alice, resource, map[string]any{}),
			event("limits_set", alice, "_default_", map[string]any{"limits": details}),
			event("limits_set", alice, resource, map[string]any{"limits": details}),
			event("entity_created", alice, "", map[string]any{
				"name": alice, "parent_id": project, "cascade": true, "metadata": map[string]any{"k": "v"},
			}),
		},
		project: {unsigned},
		"$RESOURCE:" + resource: {
			event("limits_deleted", "$RESOURCE:"+resource, resource, map[string]any{}),
			event("limits_set", "$RESOURCE:"+resource, resource, map[string]any{"limits": details}),
		},
		"$SYSTEM": {
			event("limits_deleted", "$SYSTEM", "", map[string]any{"limits": []any{"tpm"}, "on_unavailable": "allow"}),
			event("limits_set", "$SYSTEM", "", map[string]any{"on_unavailable": "allow"}),
			event("limits_set", "$SYSTEM", "", map[string]any{"limits": details, "on_unavailable": nil}),
		},
	} {
		got := collect(t, w.AuditEvents(bg, about, ""))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.AuditEvent{}, "ID")); diff != "" {
			t.Errorf("%s:\n%s", about, diff)
		}
	}
}

func TestAuditIsNewestFirstAndResumable(t *testing.T) {
	w := start(t)
	for i := range 5 {
		check(t, w.SetSystemDefaults(bg, limiter.PerDay("x", int64(i+1))))
		w.clock.pass(-time.Hour) // a clock that goes back does not change the order
	}
	all := collect(t, w.AuditEvents(bg, "$SYSTEM", ""))
	for i, ev := range all {
		limits := ev.Details["limits"].([]any)
		if got := limits[0].(map[string]any)["capacity"]; got != int64(5-i) {
			t.Errorf("event %d is about capacity %v", i, got)
		}
		if i > 0 && ev.ID >= all[i-1].ID {
			t.Errorf("ids do not rise: %s before %s", ev.ID, all[i-1].ID)
		}
		rest := collect(t, w.AuditEvents(bg, "$SYSTEM", ev.ID))
		if diff := cmp.Diff(all[i+1:], rest, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %s:\n%s", ev.ID, diff)
		}
	}
	all[0].Details["limits"] = "changed" // the caller's own copy
	if again := collect(t, w.AuditEvents(bg, "$SYSTEM", "")); again[0].Details["limits"] == "changed" {
		t.Error("the trail can be written to")
	}
}

// TestBadPrincipalChangesNothing covers rows B-28 and 24 of docs/defects.md: an
// invalid principal changes nothing.
func TestBadPrincipalChangesNothing(t *testing.T) {
	w := populated(t)
	before := w.dump(t)
	for _, principal := range []string{"not ok", "a#b", "x\n", "$SYSTEM"} {
		bad := w.As(principal)
		for _, change := range []string{
			"CreateEntity", "DeleteEntity", "SetLimits", "DeleteLimits", "SetResourceDefaults",
			"DeleteResourceDefaults",
			"SetSystemDefaults", "DeleteSystemDefaults", "SetOnUnavailable",
		} {
			invalid(t, call(bg, bad, change), "principal")
		}
		if _, err := bad.Acquire(bg, request(alice, rpm(0))); err != nil {
			t.Errorf("what is not audited fails: %v", err)
		}
	}
	if diff := cmp.Diff(before, w.dump(t)); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
}

func TestChangeThatFailsIsNotAudited(t *testing.T) {
	w := start(t)
	w.family(t)
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice})
	is(t, err, limiter.ErrExists)
	is(t, w.DeleteLimits(bg, alice, resource), limiter.ErrNotFound)
	if n := len(collect(t, w.AuditEvents(bg, alice, ""))); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// TestAChangedRateHoldsFromItsMillisecondOn checks that an event passes the
// milliseconds of its change to the store, which applies the new rate from then
// on. The audit trail shows whole seconds.
func TestAChangedRateHoldsFromItsMillisecondOn(t *testing.T) {
	w := start(t)
	one, ten := limiter.PerSecond("rpm", 1).WithBurst(100), limiter.PerSecond("rpm", 10).WithBurst(100)
	check(t, w.SetResourceDefaults(bg, resource, one))
	_, err := w.Acquire(bg, request(alice, rpm(100)))
	check(t, err)
	level := func(want int64) {
		t.Helper()
		d, err := w.Explain(bg, limiter.Request{Entity: alice, Resource: resource})
		check(t, err)
		if got := d.Statuses[0].Available; got != want {
			t.Errorf("%d tokens, want %d", got, want)
		}
	}
	w.clock.pass(999 * time.Millisecond)
	check(t, w.SetLimits(bg, alice, resource, ten))
	level(0) // not 9, as if the new rate had held from the second on
	w.clock.pass(time.Second)
	level(10)
	check(t, w.DeleteLimits(bg, alice, resource))
	level(10)
	if ev := collect(t, w.AuditEvents(bg, alice, ""))[0]; !ev.At.Equal(noon.Add(time.Second)) {
		t.Errorf("the trail says %v", ev.At)
	}
}
