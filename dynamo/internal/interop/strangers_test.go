package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// countByGo runs our aggregator on a change of alice's bucket.
func (w *world) countByGo(sequence string, change func()) {
	w.Helper()
	record := dynamo.StreamRecord{
		Feed: "a", Sequence: sequence, Event: "MODIFY", At: w.clock.now, Old: w.bucket("alice"),
	}
	change()
	record.New = w.bucket("alice")
	a, err := aggregator.New(w.Repo.UsageStore(0), &aggregator.Options{Now: func() time.Time { return w.clock.now }})
	w.Must(err)
	if t := dynamo.Aggregate(
		w.Context(), a, []dynamo.StreamRecord{record},
	); t.Err != nil || t.Lost > 0 || len(t.Skipped) > 0 {
		w.Fatalf("counting: %+v", t)
	}
}

// topUp tops up alice's bucket.
func (w *world) topUp(amounts limiter.Amounts, id string) {
	w.Helper()
	_, err := w.ours.lim.TopUp(w.Context(), "alice", "gpt-4", amounts, id)
	w.Must(err)
}

// fillTable stores every kind of item and attribute that Python does not know.
func (w *world) fillTable() {
	w.Helper()
	lim := w.ours.lim
	w.ours.create(limiter.Entity{ID: "alice", Parent: "org", Cascade: true})
	w.ours.set(gpt4, limiter.PerDay("rpm", 10).Shadow(), limiter.Quota("spend", 100, limiter.EveryMonth))
	w.ours.set(limiter.Scope{Entity: "alice", Resource: "img"},
		limiter.Quota("images", 5, limiter.EveryDay).In("Europe/Berlin"))
	w.mustAdmit(w.ours, "alice", rpm(6).And("spend", 50))
	w.countByGo("1", func() { w.mustAdmit(w.ours, "alice", rpm(7).And("spend", 20)) }) // spared
	w.topUp(spend(5), "order-1")
	w.Must(lim.Reset(w.Context(), "alice", "gpt-4", "rpm"))
	for _, s := range []limiter.Scope{{Entity: "alice"}, {Entity: "alice", Resource: "gpt-4"}, gpt4, {}} {
		w.Must(lim.Disable(w.Context(), s, "leaked"))
		w.wait(time.Second)
	}
	for _, prefix := range []string{"#SWITCH", "#TOPUP#gpt-4#", "#SHADOW#gpt-4#", "#USAGE#gpt-4#"} {
		if w.itemsUnder("alice", prefix) == 0 {
			w.Errorf("no item %s: the test shows nothing", prefix)
		}
	}
}

// TestInteropStrangersInListings checks that Python lists and counts on a table with
// switches, top-ups, quotas, shadow limits and what they would have refused as if
// none of them were there.
func TestInteropStrangersInListings(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := newWorld(t, &exactOptions)
	py := w.openPython(p, nil)
	w.fillTable()
	w.Equal("left in Python", py.left("alice", "gpt-4"), map[string]int64{"rpm": 10, "spend": 35})
	w.mustAdmit(py, "alice", rpm(1).And("spend", 5)) // four switches are off
	var entity peerEntity
	py.call("get_entity", map[string]any{"entity_id": "alice"}, &entity)
	w.Equal("entity", entity, peerEntity{"alice", "alice", "org", true, map[string]string{}, noon})
	var children []peerEntity
	py.call("get_children", map[string]any{"parent_id": "org"}, &children)
	w.Equal("children", children, []peerEntity{entity})
	w.checkStrangeBuckets(py)
	w.checkStrangeConfigs(py)
	for _, q := range []limiter.UsageQuery{
		{Entity: "alice"}, {Resource: "gpt-4"}, {Entity: "alice", Resource: "gpt-4"},
	} {
		w.compareUsage(py, q)
	}
	w.Equal("usage", py.usage("alice"), []map[string]int64{{"rpm": 7, "spend": 20}})
	for _, trail := range []string{"alice", "$RESOURCE:gpt-4", "$SYSTEM"} {
		got := w.ours.events(trail)
		w.Equal("trail of "+trail, normalize(w.T, py.events(trail)), normalize(w.T, got))
		w.Equal("newest event of "+trail, got[0].Action, "disabled")
	}
	py.remove("alice")
	w.Equal("items of a deleted entity", w.SortKeys("{ns}/ENTITY#alice"), []string(nil))
	for _, s := range []limiter.Scope{gpt4, {}} {
		w.Must(w.ours.lim.Enable(w.Context(), s))
	}
	py.remove("org")
	w.wait(defaultCacheTTL)
	w.fillTable()
	py.deleteNamespace("default")
	py.purgeNamespace(w.NS)
	for _, partition := range []string{"ENTITY#alice", "ENTITY#org", "SYSTEM#", "RESOURCE#gpt-4"} {
		w.Equal("items of "+partition+" after a purge", w.SortKeys("{ns}/"+partition), []string(nil))
	}
}

// checkStrangeBuckets checks the buckets that Python lists.
func (w *world) checkStrangeBuckets(py pyProgram) {
	w.Helper()
	got := map[string][3]int64{}
	for name, b := range py.repo.buckets(w.T, "alice", "gpt-4") {
		got[name] = [3]int64{b.Tokens, b.Capacity, b.Period}
	}
	w.Equal("tokens, capacity and period", got, map[string][3]int64{
		"rpm": {9_000, 10_000, 86_400_000}, "spend": {30_000, 100_000, 9_000_000_000_000},
	})
	var all []peerBucket
	py.call("get_resource_buckets", map[string]any{"resource": "gpt-4"}, &all)
	w.Equal("limits in the buckets of the resource", len(all), 4)
	w.Equal("what is left of both buckets", py.availableOf("spend"), int64(30+25))
}

// checkStrangeConfigs checks the limits that Python lists.
func (w *world) checkStrangeConfigs(py pyProgram) {
	w.Helper()
	var entities struct {
		Entities []string `json:"entities"`
	}
	py.call("list_entities_with_custom_limits", map[string]any{"resource": "img"}, &entities)
	w.Equal("entities with limits", entities.Entities, []string{"alice"})
	var defaults, own []string
	py.call("list_resources_with_defaults", nil, &defaults)
	py.call("list_resources_with_entity_configs", nil, &own)
	w.Equal("resources with defaults", strings.Join(defaults, " "), "gpt-4")
	w.Equal("resources with limits of entities", strings.Join(own, " "), "img")
	w.Equal("limits", py.pythonLimits(limiter.Scope{Entity: "alice", Resource: "img"}),
		[]limiter.Limit{never("images", 5)})
	w.Equal("limits of the system", len(py.pythonLimits(limiter.Scope{})), 0)
}
