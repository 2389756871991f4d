package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

const rpm99 = `"limits":[{"name":"rpm","capacity":99,"refill_amount":99,"refill_period_seconds":60}]`

// previewOf decodes the preview of a change.
func previewOf(r *rig, body string) Preview {
	r.t.Helper()
	w := r.send(request{path: "/api/preview", body: body, cookie: r.cookie})
	if w.Code != http.StatusOK {
		r.t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	var p Preview
	r.ok(json.Unmarshal(w.Body.Bytes(), &p))
	return p
}

func TestChangesAreMadeAndAudited(t *testing.T) {
	r := newRig(t, Options{Write: true})
	limits := func(entity, resource string) string {
		r.t.Helper()
		cfg, err := r.repo.Config(t.Context(), limiter.Scope{Entity: entity, Resource: resource})
		r.ok(err)
		return fmt.Sprint(cfg.Limits)
	}
	for _, scope := range []struct{ entity, resource, audited string }{
		{"key", "gpt-4", "key"}, {"key", "", "key"}, {"", "gpt-4", "$RESOURCE:gpt-4"}, {"", "", "$SYSTEM"},
	} {
		target := fmt.Sprintf(`"entity":%q,"resource":%q`, scope.entity, scope.resource)
		r.want(200, "/api/change", `{"action":"set_limits",`+target+`,`+rpm99+`}`)
		if got := limits(scope.entity, scope.resource); got != "[rpm 99/min]" {
			t.Errorf("%+v: %s", scope, got)
		}
		r.want(200, "/api/change", `{"action":"delete_limits",`+target+`}`)
		if got := limits(scope.entity, scope.resource); got != "[]" {
			t.Errorf("%+v: %s after delete", scope, got)
		}
		if detail := r.want(
			404, "/api/change", `{"action":"delete_limits",`+target+`}`,
		)["detail"]; detail != "no limits are stored at this level" {
			t.Errorf("%+v: %v", scope, detail)
		}
		var actions []string // of the session
		for _, e := range get[Audit](r, "/api/audit?entity="+scope.audited).Events {
			if e.Principal != nil && *e.Principal == "alice" && len(actions) < 2 {
				actions = append(actions, e.Action)
			}
		}
		if diff := cmp.Diff([]string{"limits_deleted", "limits_set"}, actions); diff != "" {
			t.Errorf("%+v: %s", scope, diff)
		}
	}
	r.want(200, "/api/change",
		`{"action":"create_entity","entity":"new","name":"<b>","parent":"org","cascade":true,"metadata":{"a":"b"}}`)
	e, err := r.lim.Entity(t.Context(), "new")
	r.ok(err)
	if e.Name != "<b>" || e.Parent != "org" || !e.Cascade || e.Metadata["a"] != "b" {
		t.Errorf("entity: %+v", e)
	}
	if detail := fmt.Sprint(
		r.want(409, "/api/change", `{"action":"create_entity","entity":"new"}`)["detail"],
	); !strings.Contains(detail, "has a record already") {
		t.Errorf("again: %s", detail)
	}
}

func TestAChangeIsSeenAtOnce(t *testing.T) {
	r := newRig(t, Options{Write: true})
	r.use("key", "gpt-4", "rpm", 1)
	get[EntityView](r, "/api/entity?id=key")
	r.want(200, "/api/change", `{"action":"set_limits","entity":"key",`+rpm99+`}`)
	if got := get[EntityView](r, "/api/entity?id=key").InForce[0].Level; got != "entity_default" {
		t.Errorf("in force: %s", got)
	}
	r.want(200, "/api/change", `{"action":"create_entity","entity":"key","name":"Key One"}`)
	if got := get[Overview](r, "/api/overview").Rows[0].Name; got != "Key One" {
		t.Errorf("name: %s", got)
	}
}

// TestPreviewMatchesTheChange makes each change and compares the buckets whose
// limits changed with what the preview said.
func TestPreviewMatchesTheChange(t *testing.T) {
	for _, body := range []string{
		`{"action":"set_limits",` + rpm99 + `}`,
		`{"action":"set_limits","resource":"gpt-4",` + rpm99 + `}`,
		`{"action":"set_limits","resource":"other",` + rpm99 + `}`,
		`{"action":"set_limits","entity":"plain",` + rpm99 + `}`,
		`{"action":"set_limits","entity":"own",` + rpm99 + `}`,
		`{"action":"set_limits","entity":"own","resource":"gpt-4",` + rpm99 + `}`,
		`{"action":"set_limits","entity":"stranger",` + rpm99 + `}`,
		`{"action":"set_limits","resource":"gpt-4","limits":[{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60},{"name":"tpm","capacity":1000,"refill_amount":1000,"refill_period_seconds":60}]}`,
		`{"action":"delete_limits"}`,
		`{"action":"delete_limits","resource":"gpt-4"}`,
		`{"action":"delete_limits","entity":"own"}`,
		`{"action":"delete_limits","entity":"exact","resource":"gpt-4"}`,
	} {
		r := newRig(t, Options{Write: true})
		r.ok(r.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 5)))
		r.ok(r.lim.SetLimits(t.Context(), "own", "", limiter.PerMinute("rpm", 7)))
		r.ok(r.lim.SetLimits(t.Context(), "exact", "gpt-4", limiter.PerMinute("rpm", 8)))
		for _, id := range []string{"plain", "own", "exact"} {
			r.use(id, "gpt-4", "rpm", 1)
			r.use(id, "other", "rpm", 1)
		}
		inForce := func() map[string]string {
			all := map[string]string{}
			for b, err := range r.repo.Buckets(t.Context(), r.opts.Now(), limiter.Scope{}) {
				r.ok(err)
				limits := []limiter.Limit{}
				d, err := r.lim.Explain(t.Context(), limiter.Request{
					Entity: b.Account.Entity, Resource: b.Account.Resource,
				})
				if !errors.Is(err, limiter.ErrNoLimits) {
					r.ok(err)
				}
				for _, s := range d.Statuses {
					limits = append(limits, s.Limit)
				}
				all[b.Account.Entity+"/"+b.Account.Resource] = fmt.Sprint(limits)
			}
			return all
		}
		p, before := previewOf(r, body), inForce()
		r.want(200, "/api/change", body)
		changed := map[string]string{}
		for key, limits := range inForce() {
			if limits != before[key] {
				changed[key] = limits
			}
		}
		said := map[string]string{}
		for _, e := range p.Examples {
			limits, err := limitsOf(e.To)
			r.ok(err)
			said[e.Entity+"/"+e.Resource] = fmt.Sprint(limits)
		}
		if p.Affects != len(changed) || !p.Done || p.Principal == nil {
			t.Errorf("%s: affects %d, done %v, but %d changed", body, p.Affects, p.Done, len(changed))
		}
		if diff := cmp.Diff(changed, said); diff != "" && len(changed) <= maxExamples {
			t.Errorf("%s: (-changed +said)\n%s", body, diff)
		}
	}
}

func TestPreviewWarns(t *testing.T) {
	r := newRig(t, Options{Write: true})
	r.use("key", "gpt-4", "rpm", 1)
	r.ok(r.lim.SetOnUnavailable(t.Context(), limiter.Allow))
	r.ok(r.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 5)))
	r.create(limiter.Entity{ID: "org"})
	for _, tt := range []struct{ body, want string }{
		{`{"action":"set_limits","resource":"gpt-4",` + rpm99 + `}`, "Buckets lose the limit tpm"},
		{
			`{"action":"set_limits","resource":"gpt-4","limits":[{"name":"rpm","capacity":2,"refill_amount":2,"refill_period_seconds":60}]}`,
			"shrinks from 10 to 2",
		},
		{`{"action":"delete_limits"}`, "The mode for outages, allow"},
		{`{"action":"create_entity","entity":"new","parent":"nowhere"}`, "The parent nowhere has no record."},
		{
			`{"action":"create_entity","entity":"new","parent":"org","cascade":true}`,
			"org pays for each call of new too",
		},
	} {
		if got := strings.Join(previewOf(r, tt.body).Warnings, " "); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q in it", tt.body, got, tt.want)
		}
	}
	r.ok(r.lim.DeleteSystemDefaults(t.Context()))
	r.spaces["default"].configs.forget()
	p := previewOf(r, `{"action":"delete_limits","resource":"gpt-4"}`)
	if len(p.Before) != 2 || p.After != nil || p.Affects != 1 || !strings.Contains(
		strings.Join(p.Warnings, " "), "No level would provide limits",
	) {
		t.Errorf("delete: %+v", p)
	}
	if p := previewOf(r, `{"action":"set_limits","entity":"key",`+rpm99+`}`); p.Before != nil || len(p.After) != 1 ||
		p.After[0] != (jsonview.Limit{Name: "rpm", Capacity: 99, Refill: 99, Seconds: 60}) {
		t.Errorf("set: %+v", p)
	}
	r.want(404, "/api/preview", `{"action":"delete_limits","entity":"key"}`)
	r.want(409, "/api/preview", `{"action":"create_entity","entity":"org"}`)
}

// TestPreviewsNameDollars previews changes of a budget.
func TestPreviewsNameDollars(t *testing.T) {
	r := newRig(t, Options{Write: true})
	r.ok(r.lim.SetLimits(t.Context(), "key", "gpt-4", limiter.Quota("spend", 10_000_000, limiter.EveryMonth)))
	r.use("key", "gpt-4", "spend", 2_500_000)
	budget := func(n int) string {
		return fmt.Sprintf(`"entity":"key","resource":"gpt-4","limits":[{"name":"spend","capacity":%d,"window":"month"}]`, n)
	}
	p := previewOf(r, `{"action":"top_up","entity":"key","resource":"gpt-4","amounts":{"spend":1500000}}`)
	if diff := cmp.Diff([]string{"spend: $7.50 of $10.00 available, $9.00 after it."}, p.Notes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p = previewOf(r, `{"action":"set_limits",`+budget(20)+`}`)
	const below = "spend $0.00002@month is below a cent; if you mean dollars, give them with their sign, such as $50."
	want := []string{"The capacity of spend shrinks from $10.00 to $0.00002; buckets that hold more lose the rest.", below}
	if diff := cmp.Diff(want, p.Warnings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p := previewOf(r, `{"action":"set_limits",`+budget(20_000_000)+`}`); len(p.Warnings) > 0 {
		t.Errorf("$20 has the warnings %q", p.Warnings)
	}
	for body, warned := range map[string]bool{
		`{` + budget(20) + `,"days":1}`:                                                       true,
		`{` + budget(20_000_000) + `,"days":1}`:                                               false,
		`{"manifest":"resources:\n  gpt-4:\n    limits:\n      spend: 50@month\n","days":1}`:  true,
		`{"manifest":"resources:\n  gpt-4:\n    limits:\n      spend: $50@month\n","days":1}`: false,
	} {
		warnings := fmt.Sprint(r.want(200, "/api/what-if", body)["warnings"])
		if strings.Contains(warnings, "is below a cent; ") != warned {
			t.Errorf("%s: warnings %s", body, warnings)
		}
	}
}

func TestWhatIf(t *testing.T) {
	r := newRig(t, Options{})
	for range 10 {
		r.use("key", "gpt-4", "rpm", 1)
	}
	body := `{"resource":"gpt-4","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":86400}],"days":1}`
	report := r.want(200, "/api/what-if", body)
	rows := report["rows"].([]any)
	if len(rows) != 1 || rows[0].(map[string]any)["tokens_over"].(float64) < 8 || report["more"] != 0.0 {
		t.Errorf("report: %v", report)
	}
	body = `{"manifest":"resources:\n  gpt-4:\n    limits:\n      rpm: 1/day\n      tpm: 1000/min\n","days":1}`
	if again := r.want(200, "/api/what-if", body)["rows"].([]any); len(again) != 1 {
		t.Errorf("manifest: %v", again)
	}
	if detail := fmt.Sprint(
		r.want(400, "/api/what-if", `{"resource":"gpt-4","limits":[],"days":9999}`)["detail"],
	); !strings.Contains(detail, "days") {
		t.Errorf("days: %s", detail)
	}
}
