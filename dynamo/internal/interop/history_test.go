package interop

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// peerEvent is an audit event as Python reads it.
type peerEvent struct {
	ID        string          `json:"event_id"`
	Timestamp time.Time       `json:"timestamp"`
	Action    string          `json:"action"`
	Entity    string          `json:"entity_id"`
	Principal string          `json:"principal"` // null is ""
	Resource  string          `json:"resource"`  // as is this
	Details   json.RawMessage `json:"details"`
}

func (p pyProgram) events(entity string) (all []peerEvent) {
	p.Helper()
	p.call("get_audit_events", map[string]any{"entity_id": entity}, &all)
	return all
}

// events returns the events of Go in Python's form.
func (g goProgram) events(entity string) (all []peerEvent) {
	g.Helper()
	for _, ev := range dynamotest.Collect(g.T, g.lim.AuditEvents(g.Context(), entity, "")) {
		details, err := json.Marshal(ev.Details)
		g.must(err)
		all = append(all, peerEvent{ev.ID, ev.At, ev.Action, ev.Entity, ev.Principal, ev.Resource, details})
	}
	return all
}

// normalize returns events in a form in which equal details compare equal.
func normalize(t *testing.T, events []peerEvent) []map[string]any {
	t.Helper()
	all := []map[string]any{}
	for _, ev := range events {
		var details map[string]any
		must(t, json.Unmarshal(ev.Details, &details))
		all = append(all, map[string]any{
			"id": ev.ID, "at": ev.Timestamp.UTC(), "action": ev.Action, "entity": ev.Entity,
			"principal": ev.Principal, "resource": ev.Resource, "details": details,
		})
	}
	return all
}

// TestInteropTrailIsOne checks that each library reads the events of the other,
// in the order in which they happened.
func TestInteropTrailIsOne(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		limit := limiter.PerMinute("rpm", 10)
		own := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
		var want []string
		for _, p := range []program{py, w.ours} {
			for _, step := range []struct {
				action string
				do     func()
			}{
				{"entity_created", func() {
					p.create(limiter.Entity{
						ID: "alice", Name: "Alice", Parent: "org", Metadata: map[string]string{"tier": "gold"},
					})
				}},
				{"limits_set", func() { p.set(own, limit) }},
				{"limits_set", func() { p.set(limiter.Scope{Entity: "alice"}, limit) }},
				{"limits_deleted", func() { p.unset(own) }},
				{"entity_deleted", func() { p.remove("alice") }},
			} {
				step.do()
				w.wait(time.Second)
				want = append([]string{step.action}, want...)
			}
		}
		trail := w.ours.events("alice")
		w.Equal("trail in Python", normalize(w.T, py.events("alice")), normalize(w.T, trail))
		var actions []string
		for _, ev := range trail {
			actions = append(actions, ev.Action)
		}
		w.Equal("actions", actions, want)
		ofGo, ofPython := normalize(w.T, trail[:len(trail)/2]), normalize(w.T, trail[len(trail)/2:])
		w.Equal("what Go writes of the same changes", withoutIDs(ofGo), withoutIDs(ofPython))
	})
}

// withoutIDs deletes the fields that differ between events.
func withoutIDs(events []map[string]any) []map[string]any {
	for _, ev := range events {
		delete(ev, "id")
		delete(ev, "at")
	}
	return events
}

// TestInteropTrailOfDefaultsIsOne checks the same for resources and the system,
// which have trails of their own.
func TestInteropTrailOfDefaultsIsOne(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for trail, s := range map[string]limiter.Scope{"$RESOURCE:gpt-4": {Resource: "gpt-4"}, "$SYSTEM": {}} {
			for _, p := range []program{py, w.ours} {
				p.set(s, limiter.PerMinute("rpm", 10)) // a single limit: Python lists deleted names in any order
				w.wait(time.Second)
				p.unset(s)
				w.wait(time.Second)
			}
			got := w.ours.events(trail)
			w.Equal("number of events", len(got), 4)
			w.Equal("trail in Python", normalize(w.T, py.events(trail)), normalize(w.T, got))
			w.Equal("what Go writes of the same changes", withoutIDs(normalize(w.T, got[:2])),
				withoutIDs(normalize(w.T, got[2:])))
		}
	})
}

// peerUsage is a snapshot as Python reads it.
type peerUsage struct {
	Entity   string           `json:"entity_id"`
	Resource string           `json:"resource"`
	Start    time.Time        `json:"window_start"`
	End      time.Time        `json:"window_end"`
	Window   limiter.Window   `json:"window_type"`
	Counters map[string]int64 `json:"counters"`
	Events   int64            `json:"total_events"`
}

// TestInteropUsageHasTheSameFigures compares what both libraries read from
// snapshots that Python's aggregator stores.
func TestInteropUsageHasTheSameFigures(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, hour := range []string{"10", "11"} {
			w.PutSnapshot("alice", "gpt-4", "hourly", "2027-01-15T"+hour+":00:00Z", "",
				"rpm N "+hour+"\ntpm N 500\ntotal_events N 4")
		}
		w.PutSnapshot("alice", "gpt-4", "daily", "2027-01-15T00:00:00Z", "", "rpm N 21\ntpm N 1000\ntotal_events N 8")
		w.PutSnapshot("alice", "gpt-4", "monthly", "2027-02-01T00:00:00Z", "", "rpm N 7\ntotal_events N 1")
		w.PutSnapshot("bob", "gpt-4", "hourly", "2027-01-15T09:00:00Z", "", "tpm N 3\ntotal_events N 1")
		for _, q := range []limiter.UsageQuery{
			{Entity: "alice"},
			{Resource: "gpt-4"},
			{Entity: "alice", Resource: "gpt-4"},
			{Entity: "alice", Window: limiter.Hourly},
			{Resource: "gpt-4", From: noon.Add(-2 * time.Hour), To: noon},
		} {
			w.compareUsage(py, q)
		}
	})
}

func (w *world) compareUsage(py pyProgram, q limiter.UsageQuery) {
	w.Helper()
	args := map[string]any{}
	for name, v := range map[string]string{
		"entity_id": q.Entity, "resource": q.Resource, "window_type": string(q.Window),
	} {
		if v != "" {
			args[name] = v
		}
	}
	for name, at := range map[string]time.Time{"start_time": q.From, "end_time": q.To} {
		if !at.IsZero() {
			args[name] = at.Format(time.RFC3339)
		}
	}
	var page struct {
		Snapshots []peerUsage `json:"snapshots"`
	}
	py.call("get_usage_snapshots", args, &page)
	var got []peerUsage
	for _, u := range dynamotest.Collect(w.T, w.ours.lim.Usage(w.Context(), q)) {
		got = append(got, peerUsage{u.Entity, u.Resource, u.Start, u.End, u.Window, u.Counters, u.Events})
	}
	w.Equal("snapshots", got, page.Snapshots)
	if len(got) == 0 {
		w.Errorf("nothing found for %+v: the test shows nothing", q)
	}
	w.compareSummary(py, q, args)
}

func (w *world) compareSummary(py pyProgram, q limiter.UsageQuery, args map[string]any) {
	w.Helper()
	if q.Window == "" { // Go assumes hourly, since windows overlap
		q.Window, args["window_type"] = limiter.Hourly, string(limiter.Hourly)
	}
	var want struct {
		Count   int64              `json:"snapshot_count"`
		Total   map[string]int64   `json:"total"`
		Average map[string]float64 `json:"average"`
		Min     time.Time          `json:"min_window_start"`
		Max     time.Time          `json:"max_window_start"`
	}
	py.call("get_usage_summary", args, &want)
	got, err := w.ours.lim.UsageSummary(w.Context(), q)
	w.Must(err)
	w.Equal("summary", []any{int64(got.Snapshots), got.Total, got.Average, got.First, got.Last}, []any{
		want.Count, want.Total, want.Average, want.Min, want.Max,
	})
}
