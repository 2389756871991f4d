package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestInteropLeanIndex checks that both libraries charge, adjust and administer on
// a table whose index by resource holds keys only. Python lists nothing of a
// resource there, and Go lists what both wrote.
func TestInteropLeanIndex(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := openWorld(t, dynamotest.NewLeanTable(t), &exactOptions)
	py := w.openPython(p, nil)
	w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
	for maker, p := range map[string][2]program{"go": {w.ours, py}, "python": {py, w.ours}} {
		one, other := p[0], p[1]
		kid, org := maker+"-kid", maker+"-org"
		one.create(limiter.Entity{ID: kid, Parent: org, Cascade: true})
		w.mustAdmit(other, kid, rpm(10))
		w.mustAdmit(one, kid, rpm(20))
		one.hold(kid, "gpt-4", rpm(5)).rollback()
		other.hold(kid, "gpt-4", rpm(5)).commit(rpm(-2))
		w.mustAdmit(one, org, rpm(60))
		w.mustRefuse(other, kid, rpm(8))
		w.checkTokens(kid, map[string]int64{"rpm": 67_000})
		w.checkTokens(org, map[string]int64{"rpm": 7_000})
		w.checkLeft(py, org, map[string]int64{"rpm": 7})
		one.set(limiter.Scope{Entity: kid, Resource: "gpt-4"}, limiter.PerMinute("rpm", 50))
		var limits []limiter.Limit
		py.call("get_limits", map[string]any{"entity_id": kid, "resource": "gpt-4"}, &limits)
		w.Equal("limits in Python", limits, []limiter.Limit{limiter.PerMinute("rpm", 50)})
		other.unset(limiter.Scope{Entity: kid, Resource: "gpt-4"})
	}
	w.checkLeanListings(py)
	py.remove("go-kid")
	w.ours.remove("python-kid")
	w.Equal("entities with buckets", w.entitiesWithBuckets(), []string{"go-org", "python-org"})
}

// checkLeanListings checks what both libraries list of a resource.
func (w *world) checkLeanListings(py pyProgram) {
	w.Helper()
	w.PutSnapshot("python-kid", "gpt-4", "hourly", "2027-01-15T11:00:00Z", "", "rpm N 3\ntotal_events N 4")
	w.Equal("entities with buckets in Go", w.entitiesWithBuckets(), []string{
		"go-kid", "go-org", "python-kid", "python-org",
	})
	usage := limiter.UsageQuery{Resource: "gpt-4", From: noon.Add(-time.Hour)}
	w.Equal("snapshots of the resource in Go", len(dynamotest.Collect(w.T, w.Repo.Usage(w.Context(), usage))), 1)
	var capacity struct {
		Total    int64 `json:"total_capacity"`
		Entities []any `json:"entities"`
	}
	py.call("get_resource_capacity", map[string]any{"resource": "gpt-4", "limit_name": "rpm"}, &capacity)
	w.Equal("capacity of the resource in Python", capacity.Total, int64(0))
	w.Equal("entities of the resource in Python", len(capacity.Entities), 0)
	for by, want := range map[string]int{"resource": 0, "entity_id": 1} {
		var page struct {
			Snapshots []any `json:"snapshots"`
		}
		value := map[string]string{"resource": "gpt-4", "entity_id": "python-kid"}[by]
		py.call("get_usage_snapshots", map[string]any{by: value}, &page)
		w.Equal("snapshots by "+by+" in Python", len(page.Snapshots), want)
	}
}

// entitiesWithBuckets returns the entities with a bucket for gpt-4, as Go lists
// them.
func (w *world) entitiesWithBuckets() (all []string) {
	w.Helper()
	for _, b := range dynamotest.Collect(
		w.T, w.Repo.Buckets(w.Context(), w.clock.now, limiter.Scope{Resource: "gpt-4"}),
	) {
		all = append(all, b.Account.Entity)
	}
	return all
}
