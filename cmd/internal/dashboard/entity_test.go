package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestAncestorsEnd(t *testing.T) {
	r := newRig(t, Options{})
	// Only older releases store a circle.
	for id, parent := range map[string]string{"a": "b", "b": "c", "c": "a"} {
		r.ok(r.repo.CreateEntity(t.Context(), limiter.Entity{ID: id, Name: id, Parent: parent},
			limiter.AuditEvent{ID: id, Details: map[string]any{}}))
	}
	r.create(limiter.Entity{ID: "d", Parent: "unknown"})
	parent := ""
	for i := range 40 {
		id := fmt.Sprintf("deep-%02d", i)
		r.create(limiter.Entity{ID: id, Parent: parent})
		parent = id
	}
	for _, id := range []string{"a", "d", "deep-39"} {
		r.use(id, "gpt-4", "rpm", 1)
	}
	got := map[string]string{}
	for _, a := range get[Overview](r, "/api/overview").Ancestors {
		if _, twice := got[a.Entity]; twice {
			t.Errorf("%s is listed twice", a.Entity)
		}
		got[a.Entity] = a.Parent
	}
	if got["b"] != "c" || got["c"] != "a" || got["a"] != "b" || got["unknown"] != "" || len(got) != 4+maxGenerations {
		t.Errorf("ancestors: %v", got)
	}
}

func TestEntityView(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "org", Name: "The org"})
	r.create(limiter.Entity{ID: "key", Parent: "org", Metadata: map[string]string{"plan": "gold"}})
	own := limiter.PerMinute("rpm", 99)
	r.ok(r.lim.SetLimits(t.Context(), "key", "gpt-5", own))
	r.ok(r.lim.SetLimits(t.Context(), "key", "", limiter.PerMinute("rpm", 7)))
	r.use("key", "gpt-4", "rpm", 1)
	v := get[EntityView](r, "/api/entity?id=key")
	if v.Entity == nil || v.Entity.Metadata["plan"] != "gold" || v.Entity.CreatedAt == nil || len(v.Ancestors) != 1 ||
		v.Ancestors[0].Name != "The org" {
		t.Errorf("entity: %+v, ancestors %v", v.Entity, v.Ancestors)
	}
	force := map[string]string{}
	for _, f := range v.InForce {
		force[f.Resource] = f.Level
	}
	if diff := cmp.Diff(map[string]string{"gpt-4": "entity_default", "gpt-5": "entity"}, force); diff != "" {
		t.Errorf("in force: %s", diff)
	}
	var levels []string
	for _, l := range v.Levels {
		levels = append(levels, l.Level)
	}
	if diff := cmp.Diff([]string{"entity", "entity_default", "resource"}, levels); diff != "" {
		t.Errorf("levels: %s", diff)
	}
	if diff := cmp.Diff([]string{"gpt-4", "gpt-5"}, v.Resources); diff != "" {
		t.Errorf("resources: %s", diff)
	}
	if got := keysOf(v.Rows); len(got) != 1 {
		t.Errorf("rows: %v", got)
	}
}

func TestEntitiesWithTracesOnly(t *testing.T) {
	r := newRig(t, Options{})
	r.use("used", "gpt-4", "rpm", 1)
	r.ok(r.lim.SetLimits(t.Context(), "limited", "", limiter.PerMinute("rpm", 7)))
	r.create(limiter.Entity{ID: "child", Parent: "parent-without-record"})
	for id, want := range map[string]int{
		"used": 200, "limited": 200, "parent-without-record": 200, "stranger": 404, "child": 200,
	} {
		r.want(want, "/api/entity?id="+id, "")
	}
	long := strings.Repeat("x", 256)
	r.use(long, "gpt-4", "rpm", 1)
	if got := get[EntityView](r, "/api/entity?id="+long).Rows; len(got) != 1 {
		t.Errorf("long ID: %v", got)
	}
}

func TestChildren(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 5 {
		id := fmt.Sprintf("key-%d", i)
		r.create(limiter.Entity{ID: id, Parent: "org"})
		r.use(id, "gpt-4", "rpm", 1)
	}
	var got, rows []string
	after := ""
	for {
		c := get[Children](r, "/api/children?id=org&limit=2&after="+after)
		for _, e := range c.Children {
			got = append(got, e.Entity)
		}
		rows = append(rows, keysOf(c.Rows)...)
		if after = c.Next; after == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"key-0", "key-1", "key-2", "key-3", "key-4"}, got); diff != "" || len(rows) != 5 {
		t.Errorf("rows %v, children: %s", rows, diff)
	}
}

func TestExplain(t *testing.T) {
	r := newRig(t, Options{})
	r.use("key", "gpt-4", "rpm", 8)
	body := func(n int) string {
		return fmt.Sprintf(`{"entity":"key","resource":"gpt-4","consume":{"rpm":%d,"tpm":1}}`, n)
	}
	if fits := r.want(200, "/api/explain", body(2)); fits["admitted"] != true || len(fits["levels"].([]any)) != 4 {
		t.Errorf("fits: %v", fits)
	}
	if refused := r.want(200, "/api/explain", body(3)); refused["admitted"] != false ||
		refused["retry_after_seconds"].(float64) <= 0 {
		t.Errorf("refused: %v", refused)
	}
	if never := r.want(200, "/api/explain", body(11)); never["never_fits"] != true {
		t.Errorf("never fits: %v", never)
	}
	if got := get[Overview](r, "/api/overview").Rows[0].Limits[0].Available; got != 2 {
		t.Errorf("explain charged: %d left", got)
	}
}
