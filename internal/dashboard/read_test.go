package dashboard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// keysOf returns the rows as "entity/resource".
func keysOf(rows []Row) []string {
	keys := []string{}
	for _, r := range rows {
		keys = append(keys, r.Entity+"/"+r.Resource)
	}
	return keys
}

func (r *rig) create(e limiter.Entity) {
	r.t.Helper()
	_, err := r.lim.CreateEntity(context.Background(), e)
	r.ok(err)
}

func TestARowShowsABucket(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "key", Name: "<script>\u202e", Parent: "org", Cascade: true})
	r.use("key", "gpt-4", "rpm", 5)
	got := get[Overview](r, "/api/overview").Rows[0]
	if got.Name != "<script>\u202e" || got.Parent != "org" || !got.Cascade || got.Source != (Source{"resource", "", "gpt-4"}) {
		t.Errorf("row: %+v", got)
	}
	rpm := got.Limits[0]
	if rpm.Name != "rpm" || rpm.Available != 5 || rpm.UsedPercent != 50 || rpm.Debt != 0 || rpm.FullAfter != 30.001 || rpm.Capacity != 10 || rpm.Refill != 10 || rpm.Seconds != 60 {
		t.Errorf("limit: %+v", rpm)
	}
}

func TestUsedPercentStaysInItsBounds(t *testing.T) {
	limit := limiter.PerMinute("rpm", 3)
	for tokens, want := range map[int64]float64{3000: 0, 2999: 0.03, 1501: 49.96, 1500: 50, 1: 99.96, 0: 100, -1: 100, -9000: 100, 9000: 0} {
		if got := usedPercent(limit, tokens); got != want {
			t.Errorf("%d thousandths left: %v %%, want %v", tokens, got, want)
		}
	}
	huge := limiter.PerMinute("tpm", 9_000_000_000_000_000)
	if got := newRowLimit(huge, -9_000_000_000_000_000_000, 0); got.UsedPercent != 100 || got.Debt != 9_000_000_000_000_000 || got.FullAfter < 60 {
		t.Errorf("large debt: %+v", got)
	}
	if got := newRowLimit(limit, -1, time.Hour); got.Debt != 1 || got.Available != -1 || got.FullAfter < 3660 {
		t.Errorf("small debt with a clock that is ahead: %+v", got)
	}
}

func TestTheSourceOfLimitsOfAProgram(t *testing.T) {
	r := newRig(t, Options{})
	own := []limiter.Limit{limiter.PerMinute("calls", 7)}
	_, err := r.lim.Acquire(t.Context(), limiter.Request{Entity: "key", Resource: "other", Consume: limiter.Tokens("calls", 1), Limits: own})
	r.ok(err)
	if got := get[Overview](r, "/api/overview").Rows[0].Source.Level; got != "program" {
		t.Errorf("level: %s", got)
	}
	r.ok(r.lim.SetSystemDefaults(t.Context(), own...))
	r.Handler.spaces["default"].configs.forget()
	if got := get[Overview](r, "/api/overview").Rows[0].Source.Level; got != "system" {
		t.Errorf("level with system limits: %s", got)
	}
}

func TestOverviewInPages(t *testing.T) {
	r := newRig(t, Options{})
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("key-%02d", i)
		r.use(id, "gpt-4", "rpm", 1)
		want = append(want, id+"/gpt-4")
	}
	for _, limit := range []int{1, 7, 25, 100} {
		var got []string
		after := ""
		for {
			o := get[Overview](r, fmt.Sprintf("/api/overview?limit=%d&after=%s", limit, url.QueryEscape(after)))
			if len(o.Rows) > limit || o.Done != (o.Next == "") {
				t.Fatalf("limit %d: %d rows, done %v, next %q", limit, len(o.Rows), o.Done, o.Next)
			}
			got = append(got, keysOf(o.Rows)...)
			if after = o.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: (-want +got)\n%s", limit, diff)
		}
	}
	if got := keysOf(get[Overview](r, "/api/overview?prefix=key-1").Rows); len(got) != 10 || got[0] != "key-10/gpt-4" {
		t.Errorf("prefix: %v", got)
	}
}

func TestSearchFindsIDsAndNames(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "k1", Name: "Müller & Söhne"})
	for _, id := range []string{"k1", "k2", "Team-A", "team-b"} {
		r.use(id, "gpt-4", "rpm", 1)
	}
	for search, want := range map[string][]string{
		"team": {"Team-A/gpt-4", "team-b/gpt-4"}, "SÖHNE": {"k1/gpt-4"}, "k": {"k1/gpt-4", "k2/gpt-4"}, "gpt": {}, `<script>"'`: {},
	} {
		o := get[Overview](r, "/api/overview?search="+url.QueryEscape(search))
		if diff := cmp.Diff(want, keysOf(o.Rows)); diff != "" || !o.Done {
			t.Errorf("%s: done %v (-want +got)\n%s", search, o.Done, diff)
		}
	}
}

func TestTightestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		for i := range 1500 {
			r.use(fmt.Sprintf("key-%04d", i), "gpt-4", "rpm", int64(i%10))
		}
		var o Overview
		for range 100 {
			if o = get[Overview](r, "/api/overview?order=tightest"); o.Done {
				break
			}
		}
		if !o.Done || o.Scanned != 1500 || len(o.Rows) != tightestOfAll {
			t.Fatalf("done %v, scanned %d, %d rows", o.Done, o.Scanned, len(o.Rows))
		}
		for _, row := range o.Rows {
			if row.Limits[0].Available != 1 {
				t.Fatalf("not among the tightest: %+v", row)
			}
		}
		if got := keysOf(get[Overview](r, "/api/overview?order=tightest&limit=1&prefix=key-00&search=19").Rows); len(got) != 1 || got[0] != "key-0019/gpt-4" {
			t.Errorf("filtered: %v", got)
		}
		r.ok(r.Close())
	})
}

func TestAScanStopsIfNoViewerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Now: time.Now})
		for i := range 1200 {
			r.use(fmt.Sprintf("key-%04d", i), "gpt-4", "rpm", 1)
		}
		r.gate.enter() // a call that takes long
		r.want(200, "/api/info", "")
		s := r.spaces["default"].scans.of("")
		_, _, err := s.result()
		r.ok(err)
		synctest.Wait()
		if t1, _, _ := s.result(); t1.scanned != r.spaces["default"].pace.page {
			t.Errorf("scanned %d while a call is under way", t1.scanned)
		}
		time.Sleep(scanInterest + time.Second)
		r.gate.leave()
		time.Sleep(scanPatience / 2)
		s.mu.Lock()
		if !s.running || s.current.scanned != s.s.pace.page {
			t.Errorf("running %v, scanned %d without a viewer", s.running, s.current.scanned)
		}
		s.mu.Unlock()
		time.Sleep(scanPatience)
		s.mu.Lock()
		if s.running || s.complete != nil {
			t.Error("the scan goes on without a viewer")
		}
		s.mu.Unlock()
		_, _, err = s.result() // starts again
		r.ok(err)
		time.Sleep(5 * time.Second)
		if got, done, err := s.result(); err != nil || !done || got.scanned != 1200 {
			t.Errorf("done %v, %v", done, err)
		}
		r.ok(r.Close())
	})
}

func TestAncestorsEnd(t *testing.T) {
	r := newRig(t, Options{})
	r.create(limiter.Entity{ID: "a", Parent: "b"})
	r.create(limiter.Entity{ID: "b", Parent: "c"})
	r.create(limiter.Entity{ID: "c", Parent: "a"})
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
	if v.Entity == nil || v.Entity.Metadata["plan"] != "gold" || v.Entity.CreatedAt == nil || len(v.Ancestors) != 1 || v.Ancestors[0].Name != "The org" {
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
	for id, want := range map[string]int{"used": 200, "limited": 200, "parent-without-record": 200, "stranger": 404, "child": 200} {
		r.want(want, "/api/entity?id="+id, "")
	}
	long := strings.Repeat("x", 256)
	r.use(long, "gpt-4", "rpm", 1)
	if got := get[EntityView](r, "/api/entity?id="+long).Rows; len(got) != 1 {
		t.Errorf("long ID: %v", got)
	}
}

func TestBadInputGetsASentence(t *testing.T) {
	r := newRig(t, Options{Write: true})
	for _, tt := range []struct{ path, body, want string }{
		{"/api/overview?order=x", "", "parameter order: must be name or tightest"},
		{"/api/overview?limit=0", "", "parameter limit: must be a whole number from 1 to 1000"},
		{"/api/overview?limit=1&limit=2", "", "parameter limit: must have one value"},
		{"/api/overview?colour=red", "", "the parameters are order"},
		{"/api/info?x=1", "", "the call has no parameters"},
		{"/api/overview?after=%ZZ", "", "the query is not valid"},
		{"/api/overview?after=~", "", "after"},
		{"/api/overview?search=" + strings.Repeat("x", 3000), "", "at most 2048 bytes"},
		{"/api/entity", "", "must not be empty"},
		{"/api/entity?id=" + url.QueryEscape("<script>"), "", "must begin with an alphanumeric"},
		{"/api/entity?id=" + strings.Repeat("x", 257), "", "exceeds the maximum length"},
		{"/api/entity?id=a%2Fb", "", "letters, digits"},
		{"/api/entity?id=%F0%9F%98%80", "", "must begin with"},
		{"/api/children?id=", "", "must not be empty"},
		{"/api/usage", "", "parameter entity: is missing"},
		{"/api/usage?entity=a&window=weekly", "", "hourly or daily or monthly"},
		{"/api/usage?entity=a&from=yesterday", "", "parameter from: must be a day"},
		{"/api/usage?entity=a&from=2026-02-01&to=2026-01-01", "", "must not be before from"},
		{"/api/audit?after=x", "", "parameter after: must be the next"},
		{"/api/audit?entity=$RESOURCE:", "", "must not be empty"},
		{"/api/resource?name=", "", "must not be empty"},
		{"/api/explain", `{`, "must be one JSON object"},
		{"/api/explain", `[]`, "must be one JSON object"},
		{"/api/explain", `null`, "must be one JSON object"},
		{"/api/explain", `{} {}`, "nothing after it"},
		{"/api/explain", `{"entity":1}`, "field entity: must be a string, not a JSON number"},
		{"/api/explain", `{"Entität":""}`, "is unknown"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"rpm":-1}}`, "must be 0 or more"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"rpm":1.5}}`, "whole number"},
		{"/api/explain", `{"entity":"a","resource":"nothing","consume":{"rpm":1}}`, "no level stores limits"},
		{"/api/explain", `{"entity":"a","resource":"gpt-4","consume":{"nope":1}}`, "nope"},
		{"/api/watch", `{"id":"x","keys":[["a"]]}`, "pairs of an entity and a resource"},
		{"/api/watch", `{"id":"x","keys":[` + strings.TrimSuffix(strings.Repeat(`["a","b"],`, 501), ",") + `]}`, "at most 500"},
		{"/api/what-if", `{"manifest":"a: ["}`, "manifest: "},
		{"/api/what-if", `{"manifest":"{}","entity":"a"}`, "either a manifest"},
		{"/api/what-if", `{"limits":[{"name":"rpm","capacity":0,"refill_amount":1,"refill_period_seconds":60}]}`, "capacity"},
		{"/api/what-if", `{"limits":[],"days":-1}`, "days"},
		{"/api/change", `{"action":"explode"}`, "set_limits, delete_limits or create_entity"},
		{"/api/change", `{"action":"set_limits","entity":"a"}`, "must have 1 to 50 limits"},
		{"/api/change", `{"action":"set_limits","entity":"#"}`, "must not contain"},
		{"/api/change", `{"action":"set_limits","entity":"a","name":"b"}`, "belong to create_entity"},
		{"/api/change", `{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":0}]}`, "must be between 1 and"},
		{"/api/change", `{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1,"burst":3}]}`, "is unknown"},
		{"/api/change", `{"action":"set_limits","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1},{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1}]}`, "listed twice"},
		{"/api/change", `{"action":"delete_limits","entity":"a","limits":[]}`, "belongs to set_limits"},
		{"/api/change", `{"action":"create_entity","entity":"a","parent":"a"}`, "must be another entity"},
		{"/api/change", `{"action":"create_entity","entity":"a","resource":"r"}`, "without a resource"},
	} {
		if detail := fmt.Sprint(r.want(400, tt.path, tt.body)["detail"]); !strings.Contains(detail, tt.want) {
			t.Errorf("%s %s: %q, want %q in it", tt.path, tt.body, detail, tt.want)
		}
	}
	r.want(413, "/api/explain", `{"entity":"`+strings.Repeat("x", maxBody)+`"}`)
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

func TestUsageIsAddedUpOldestFirst(t *testing.T) {
	now := time.Date(2026, 1, 31, 15, 30, 0, 0, time.UTC)
	r := newRig(t, Options{Now: func() time.Time { return now }})
	r.ok(r.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 100)))
	end := now
	for _, back := range []time.Duration{3 * time.Hour, time.Hour} {
		now = end.Add(-back)
		r.use("key", "gpt-4", "rpm", 2)
		r.use("key", "other", "rpm", 3)
	}
	now = end
	u := get[Usage](r, "/api/usage?entity=key")
	if len(u.Snapshots) != 2 || !u.Snapshots[0].Start.Before(u.Snapshots[1].Start) || u.Snapshots[0].Counters["rpm"] != 5 || u.Snapshots[0].Window != "hourly" {
		t.Errorf("hourly: %+v", u)
	}
	if one := get[Usage](r, "/api/usage?entity=key&resource=other&window=daily"); len(one.Snapshots) != 1 || one.Snapshots[0].Counters["rpm"] != 6 {
		t.Errorf("daily: %+v", one)
	}
	if none := get[Usage](r, "/api/usage?entity=key&to=2026-01-31T00:00:00Z"); len(none.Snapshots) != 0 {
		t.Errorf("before: %+v", none)
	}
}

func TestAuditInPages(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 5 {
		r.ok(r.lim.SetLimits(t.Context(), "key", "", limiter.PerMinute("rpm", int64(i+1))))
	}
	n, after := 0, ""
	for {
		a := get[Audit](r, "/api/audit?entity=key&limit=2&after="+after)
		n += len(a.Events)
		if after = a.Next; after == "" {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d events", n)
	}
	if all := get[Audit](r, "/api/audit"); len(all.Events) != 6 {
		t.Errorf("all: %d events", len(all.Events))
	}
}

func TestResourceView(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 15 {
		r.use(fmt.Sprintf("key-%02d", i), "gpt-4", "rpm", int64(i%11))
	}
	r.use("key-00", "gpt-4", "tpm", 400)
	v := get[ResourceView](r, "/api/resource?name=gpt-4")
	if !v.Done || v.Entities != 15 || len(v.Top) != 10 || v.Top[0].Entity != "key-10" || len(v.Defaults) != 2 {
		t.Errorf("view: %+v", v)
	}
	if got := v.Limits[0]; got.Name != "rpm" || got.Capacity != 150 || got.Available != 150-61 || got.UsedPercent != 40.66 {
		t.Errorf("rpm: %+v", got)
	}
	if none := get[ResourceView](r, "/api/resource?name=unknown"); !none.Done || none.Entities != 0 || none.Defaults != nil || none.Top == nil || none.Limits == nil {
		t.Errorf("unknown: %+v", none)
	}
	own := []limiter.Limit{limiter.PerMinute("calls", 7)}
	_, err := r.lim.Acquire(t.Context(), limiter.Request{Entity: "key", Resource: "seen/only", Consume: limiter.Tokens("calls", 1), Limits: own})
	r.ok(err)
	get[Overview](r, "/api/overview")
	if diff := cmp.Diff([]string{"gpt-4", "seen/only"}, get[Resources](r, "/api/resources").Resources); diff != "" {
		t.Errorf("resources: %s", diff)
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
	if refused := r.want(200, "/api/explain", body(3)); refused["admitted"] != false || refused["retry_after_seconds"].(float64) <= 0 {
		t.Errorf("refused: %v", refused)
	}
	if never := r.want(200, "/api/explain", body(11)); never["never_fits"] != true {
		t.Errorf("never fits: %v", never)
	}
	if got := get[Overview](r, "/api/overview").Rows[0].Limits[0].Available; got != 2 {
		t.Errorf("explain charged: %d left", got)
	}
}

// failing is a store whose reads of buckets fail.
type failing struct {
	limiter.Repository
	err error
}

func (f failing) Buckets(context.Context, time.Time, limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return func(yield func(limiter.Bucket, error) bool) { yield(limiter.Bucket{}, f.err) }
}

func TestErrorsOfTheStore(t *testing.T) {
	for err, want := range map[error]int{
		errors.New("10.0.0.1 refused"): 503, limiter.ErrClosed: 503, context.DeadlineExceeded: 503,
		&limiter.CorruptError{Item: "x", Reason: "y"}: 500,
	} {
		r := newRig(t, Options{})
		var reported atomic.Bool
		r.opts.OnError = func(error) { reported.Store(true) }
		r.opts.Open = func(context.Context, string) (limiter.Repository, error) { return failing{r.repo, err}, nil }
		for _, path := range []string{"/api/overview", "/api/entity?id=a", "/api/resource?name=gpt-4"} {
			answer := r.want(want, path, "")
			if detail := fmt.Sprint(answer["detail"]); strings.Contains(detail, "10.0.0.1") {
				t.Errorf("%s: viewers see %s", path, detail)
			}
			if !reported.Load() {
				t.Errorf("%s: %v is not reported", path, err)
			}
		}
	}
}
