package webdemo

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func TestEveryCall(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // a part of the answer
	}{
		{"index", "GET", "/", "", 200, `<a href="docs">`},
		{"health", "GET", "/health", "", 200, `{"status":"healthy"}`},
		{"head of health", "HEAD", "/health", "", 200, ""},
		{"docs", "GET", "/docs", "", 200, "/v1/chat/completions"},
		{"document", "GET", "/openapi.json", "", 200, `"openapi": "3.1.0"`},
		{"unknown path", "GET", "/nothing", "", 404, "there is no such path"},
		{"wrong method", "DELETE", "/health", "", 405, "this path allows GET"},
		{"no dashboard", "GET", "/dashboard/", "", 404, ""},

		{"entities", "GET", "/api/entities", "", 200, `"entity_id":"key-charlie"`},
		{"entities with a slash", "GET", "/api/entities/", "", 200, `"next":null`},
		{"first page", "GET", "/api/entities?limit=1", "", 200, `"next":"key-alice"`},
		{"second page", "GET", "/api/entities?limit=1&after=key-alice", "", 200, `"next":"key-bob"`},
		{"empty page", "GET", "/api/entities?after=zzz", "", 200, `{"entities":[],"next":null}`},
		{
			"wrong limit", "GET", "/api/entities?limit=0", "", 400,
			"parameter limit must be a whole number from 1 to 1000",
		},
		{"unknown parameter", "GET", "/api/entities?page=2", "", 400, `parameter \"page\" is unknown`},
		{"parameter twice", "GET", "/api/entities?limit=1&limit=2", "", 400, "parameter limit is given twice"},
		{"entity", "GET", "/api/entities/proj-demo", "", 200, `"metadata":{"tier":"enterprise"}`},
		{"unknown entity", "GET", "/api/entities/missing", "", 404, "there is no such entity"},
		{"wrong ID", "GET", "/api/entities/%3Cscript%3E", "", 400, "invalid"},
		{"children", "GET", "/api/entities/proj-demo/children?limit=2", "", 200, `"next":"key-bob"`},
		{"children of none", "GET", "/api/entities/missing/children", "", 404, ""},
		{"create", "POST", "/api/entities", `{"entity_id":"key-dora","parent_id":"proj-demo"}`, 201, `"cascade":true`},
		{
			"create with a slash", "POST", "/api/entities/", `{"entity_id":"solo","name":"<script>"}`, 201,
			`"cascade":false`,
		},
		{
			"create without cascade", "POST", "/api/entities",
			`{"entity_id":"k","parent_id":"p","cascade":false}`, 201, `"cascade":false`,
		},
		{"create again", "POST", "/api/entities", `{"entity_id":"key-bob"}`, 409, "exists"},
		{"create nothing", "POST", "/api/entities", `{}`, 400, "invalid"},
		{"cascade to none", "POST", "/api/entities", `{"entity_id":"x","cascade":true}`, 400, "invalid"},
		{"unknown field", "POST", "/api/entities", `{"id":"x"}`, 400, `field \"id\" is unknown`},
		{"wrong type", "POST", "/api/entities", `{"entity_id":1}`, 400, "field entity_id must not be a JSON number"},
		{"no object", "POST", "/api/entities", `[]`, 400, "must be one JSON object"},
		{"two objects", "POST", "/api/entities", `{"entity_id":"x"} {}`, 400, "nothing after it"},
		{"body too large", "POST", "/api/entities", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, 413, ""},
		{"delete", "DELETE", "/api/entities/key-bob", "", 204, ""},
		{"delete none", "DELETE", "/api/entities/missing", "", 404, ""},

		{
			"limits", "GET", "/api/limits/key-bob", "", 200,
			`{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60,"refill_rate":0.16666666666666666}`,
		},
		{"limits of another model", "GET", "/api/limits/key-bob?resource=gpt-3.5-turbo", "", 200, `"limits":[]`},
		{"limits of none", "GET", "/api/limits/missing", "", 404, ""},
		{
			"set a rate", "PUT", "/api/limits/key-bob",
			`{"limits":[{"name":"rpm","capacity":5,"refill_rate":0.16666666666666666}]}`, 200,
			`"refill_amount":1,"refill_period_seconds":6`,
		},
		{
			"set an amount", "PUT", "/api/limits/key-bob",
			`{"limits":[{"name":"rpm","capacity":5,"refill_amount":7,"refill_period_seconds":3600}]}`, 200,
			`"refill_amount":7,"refill_period_seconds":3600`,
		},
		{
			"set both", "PUT", "/api/limits/key-bob",
			`{"limits":[{"name":"rpm","capacity":5,"refill_rate":1,"refill_amount":7}]}`, 400, "not both",
		},
		{
			"set no rate", "PUT", "/api/limits/key-bob", `{"limits":[{"name":"rpm","capacity":5}]}`, 400,
			"refill_rate must be the rate of a whole number",
		},
		{
			"set an endless period", "PUT", "/api/limits/key-bob",
			`{"limits":[{"name":"rpm","capacity":5,"refill_amount":1,"refill_period_seconds":9223372036854775807}]}`,
			200, `"refill_period_seconds":9223372036`,
		},
		{"set no limits", "PUT", "/api/limits/key-bob", `{"limits":[]}`, 400, "must not be empty"},
		{
			"set for none", "PUT", "/api/limits/missing",
			`{"limits":[{"name":"rpm","capacity":5,"refill_rate":1}]}`, 404, "",
		},
		{"delete limits", "DELETE", "/api/limits/key-bob", "", 204, ""},
		{"delete no limits", "DELETE", "/api/limits/key-charlie", "", 404, ""},

		{"state", "GET", "/api/dashboard/entities", "", 200, `"available":30,"utilization_pct":0`},
		{"page of the state", "GET", "/api/dashboard/entities?limit=2", "", 200, `"next":"key-bob"`},
		{
			"availability", "GET", "/api/dashboard/availability/key-charlie", "", 200,
			`"available":{"rpm":20,"tpm":2000}`,
		},
		{"availability of none", "GET", "/api/dashboard/availability/missing", "", 404, ""},
		{"no wait", "GET", "/api/dashboard/wait-time/key-bob", "", 200, `{"wait_seconds":0,"never_fits":false}`},
		{
			"never", "GET", "/api/dashboard/wait-time/key-bob?tpm=1001", "", 200,
			`{"wait_seconds":null,"never_fits":true}`,
		},
		{
			"wrong amount", "GET", "/api/dashboard/wait-time/key-bob?tpm=-1", "", 400,
			"parameter tpm must be a whole number from 0",
		},
		{"wait of none", "GET", "/api/dashboard/wait-time/missing", "", 404, ""},
		{"wrong stream", "GET", "/api/dashboard/stream?x=1", "", 400, "is unknown"},

		{"traffic", "GET", "/api/traffic", "", 200, `{"paused":false,"calls":0,"admitted":0,"refused":0}`},
		{"pause", "POST", "/api/traffic", `{"paused":true}`, 200, `"paused":true`},
		{"pause nothing", "POST", "/api/traffic", `{}`, 400, "field paused is missing"},

		{"chat without a key", "POST", chatPath, hello, 401, "the API key is missing or unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDemo(t, nil)
			w := d.do(c.method, c.path, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, w.Code, w.Body, c.status, c.want)
			}
			if got := w.Header().Get("Content-Type"); w.Code >= 400 && got != "application/problem+json" {
				t.Errorf("a problem has the type %q", got)
			}
		})
	}
}

// A key that the API creates is charged together with its project, and by the
// limits that the API stores.
func TestStoredLimitsApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		d.do("POST", "/api/entities", `{"entity_id":"key-dora","parent_id":"proj-demo"}`)
		d.do("PUT", "/api/limits/key-dora", `{"limits":[{"name":"rpm","capacity":2,"refill_rate":0.5}]}`)
		var codes []int
		for range 3 {
			codes = append(codes, d.chat("key-dora", hello).Code)
		}
		if diff := cmp.Diff([]int{200, 200, 429}, codes); diff != "" {
			t.Error(diff)
		}
		if got := d.used("proj-demo", modelLarge)[limiter.RPM]; got != 2 {
			t.Errorf("the project was charged %d requests, want 2", got)
		}
		if w := d.do("DELETE", "/api/limits/key-dora", ""); w.Code != http.StatusNoContent {
			t.Errorf("delete: %d %s", w.Code, w.Body)
		}
		time.Sleep(3 * time.Second) // one of the 20 requests a minute of the defaults
		if w := d.chat("key-dora", hello); w.Code != http.StatusOK {
			t.Errorf("with the defaults: %d %s", w.Code, w.Body)
		}
	})
}

// A quota that the dashboard stored, and a key that it switched off, do not break
// the API.
func TestQuotasAndSwitches(t *testing.T) {
	d := newDemo(t, nil)
	if err := d.lim.SetLimits(
		t.Context(), "key-bob", modelLarge, limiter.Quota("rpm", 2, limiter.EveryMonth),
	); err != nil {
		t.Fatal(err)
	}
	if got := parse[limitsJSON](t, d.do("GET", "/api/limits/key-bob", "")).Limits; len(got) != 1 ||
		got[0].Window != "month" || got[0].Rate != 0 {
		t.Errorf("limits %+v", got)
	}
	if err := d.lim.Disable(t.Context(), limiter.Scope{Entity: "key-bob"}, "unpaid"); err != nil {
		t.Fatal(err)
	}
	if w := d.chat("key-bob", hello); w.Code != http.StatusForbidden {
		t.Errorf("a disabled key: %d %s", w.Code, w.Body)
	}
	if w := d.do(
		"GET", "/api/dashboard/availability/key-bob", "",
	); w.Code != http.StatusOK && w.Code != http.StatusForbidden {
		t.Errorf("availability of a disabled key: %d %s", w.Code, w.Body)
	}
}

// Every rate of whole tokens and seconds can be written as it was read.
func TestRatesAreExact(t *testing.T) {
	for _, l := range []limiter.Limit{
		limiter.PerMinute("a", 50), limiter.PerMinute("a", 1), limiter.PerHour("a", 7), limiter.PerDay("a", 10_007),
		limiter.PerSecond("a", 123_456_789),
	} {
		amount, seconds, ok := exactRate(rateOf(l))
		if !ok || amount*int64(l.Period.Seconds()) != l.Refill*seconds {
			t.Errorf("%v: %d tokens every %d s (%v)", l, amount, seconds, ok)
		}
	}
	for _, rate := range []float64{0, -1, 1e-9, 3.14159265358979} {
		if amount, seconds, ok := exactRate(rate); ok {
			t.Errorf("%v is %d every %d s", rate, amount, seconds)
		}
	}
}

// The seed can be repeated, finishes an interrupted one, and leaves changes.
func TestSeed(t *testing.T) {
	d := newDemo(t, nil)
	d.do("PUT", "/api/limits/key-bob", `{"limits":[{"name":"rpm","capacity":2,"refill_rate":1}]}`)
	d.do("DELETE", "/api/limits/key-alice", "")
	d.do("DELETE", "/api/entities/key-charlie", "")
	if err := Seed(t.Context(), d.lim); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range parse[entityPage](t, d.do("GET", "/api/entities", "")).Entities {
		limits := parse[limitsJSON](t, d.do("GET", "/api/limits/"+e.ID, ""))
		got = append(got, fmt.Sprintf("%s %s of %s: %d", e.ID, e.Name, orNone(e), len(limits.Limits)))
	}
	want := []string{
		"key-alice Alice of proj-demo: 0", "key-bob Bob of proj-demo: 1", "key-charlie Charlie of proj-demo: 0",
		"proj-demo Demo Project of none: 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func orNone(e jsonview.Entity) string {
	if e.Parent == nil {
		return "none"
	}
	return *e.Parent
}

func TestInfoShowsEveryKeyWithItsLimits(t *testing.T) {
	want := []Key{{"key-alice", "Alice (30 rpm, 3,000 tpm)"}, {"key-bob", "Bob (10 rpm, 1,000 tpm)"}, {
		"key-charlie", "Charlie (20 rpm, 2,000 tpm)",
	}}
	if diff := cmp.Diff(want, NewInfo().Keys); diff != "" {
		t.Error(diff)
	}
}
