package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestDisableAndEnable switches levels off and on, and follows rows, entity,
// resource and explanation.
func TestDisableAndEnable(t *testing.T) {
	r := newRig(t, Options{Write: true})
	r.create(limiter.Entity{ID: "org"})
	r.create(limiter.Entity{ID: "key", Parent: "org", Cascade: true})
	r.use("key", "gpt-4", "rpm", 1)
	r.use("other", "gpt-4", "rpm", 1)
	off := func() string {
		t.Helper()
		var all []string
		for _, row := range get[Overview](r, "/api/overview").Rows {
			if row.Off != nil {
				all = append(all, row.Entity+" by "+row.Off.Level)
			}
		}
		return strings.Join(all, ", ")
	}
	for _, tt := range []struct{ target, rows string }{
		{`"entity":"key","resource":"gpt-4"`, "key by entity"},
		{`"entity":"key"`, "key by entity_default"},
		{`"entity":"org"`, "key by entity_default, org by entity_default"}, // the parent of key
		{`"resource":"gpt-4"`, "key by resource, org by resource, other by resource"},
		{`"all":true`, "key by system, org by system, other by system"},
	} {
		if notes := previewOf(r, `{"action":"disable",`+tt.target+`}`); len(notes.Notes)+len(notes.Warnings) != 1 ||
			off() != "" {
			t.Errorf("%s: preview %+v, off %q", tt.target, notes, off())
		}
		r.want(200, "/api/change", `{"action":"disable",`+tt.target+`,"reason":"unpaid"}`)
		if got := off(); got != tt.rows {
			t.Errorf("%s: off are %q, want %q", tt.target, got, tt.rows)
		}
		if got := get[EntityView](r, "/api/entity?id=key").Disabled; len(got) != 1 || *got[0].Reason != "unpaid" {
			t.Errorf("%s: entity %+v", tt.target, got)
		}
		if got := get[ResourceView](
			r, "/api/resource?name=gpt-4",
		).Disabled; (len(got) == 1) != !strings.Contains(tt.target, `"entity":"k`) &&
			!strings.Contains(tt.target, "org") {
			t.Errorf("%s: resource %+v", tt.target, got)
		}
		explained := r.want(200, "/api/explain", `{"entity":"key","resource":"gpt-4","consume":{"rpm":1}}`)
		if explained["admitted"] != false || !strings.Contains(fmt.Sprint(explained["reasons"]), "unpaid") {
			t.Errorf("%s: explanation %v", tt.target, explained)
		}
		if notes := previewOf(
			r, `{"action":"enable",`+tt.target+`}`,
		).Notes; !strings.Contains(strings.Join(notes, " "), "unpaid") {
			t.Errorf("%s: preview %v", tt.target, notes)
		}
		r.want(200, "/api/change", `{"action":"enable",`+tt.target+`}`)
		for _, path := range []string{"/api/preview", "/api/change"} {
			if detail := r.want(
				404, path, `{"action":"enable",`+tt.target+`}`,
			)["detail"]; detail != "this level is not disabled" {
				t.Errorf("%s: %v", tt.target, detail)
			}
		}
	}
	for _, body := range []string{
		`{"action":"disable"}`, `{"action":"enable","entity":""}`,
		`{"action":"disable","all":true,"entity":"key"}`,
		`{"action":"reset","all":true,"entity":"key","resource":"gpt-4"}`,
	} {
		r.want(400, "/api/preview", body)
		r.want(400, "/api/change", body)
	}
	if w := r.send(request{path: "/api/entity?id=stranger", cookie: r.cookie}); w.Code != http.StatusNotFound {
		t.Errorf("an unknown entity: %d", w.Code)
	}
	r.want(200, "/api/change", `{"action":"disable","entity":"stranger"}`)
	if got := get[EntityView](r, "/api/entity?id=stranger").Disabled; len(got) != 1 {
		t.Errorf("an entity that is only disabled: %+v", got)
	}
}

// TestResetAndTopUp checks that previews say what happens, and that a repeated
// confirmation adds nothing.
func TestResetAndTopUp(t *testing.T) {
	r := newRig(t, Options{Write: true})
	r.use("key", "gpt-4", "rpm", 8)
	left := func() string {
		t.Helper()
		amounts, err := r.lim.Available(t.Context(), "key", "gpt-4")
		r.ok(err)
		return amounts.String()
	}
	const target = `"entity":"key","resource":"gpt-4"`
	p := previewOf(r, `{"action":"top_up",`+target+`,"amounts":{"rpm":5}}`)
	if want := []string{
		"rpm: 2 of 10 available, 7 after it.", "tpm: 1000 of 1000 available, 1000 after it.",
	}; !cmp.Equal(want, p.Notes) || p.ID == "" || left() != "rpm=2 tpm=1000" {
		t.Errorf("preview %+v, left %s", p, left())
	}
	for i := range 2 {
		answer := r.want(200, "/api/change", `{"action":"top_up",`+target+`,"amounts":{"rpm":5},"id":"`+p.ID+`"}`)
		if repeated := answer["repeated"] == true; repeated != (i == 1) {
			t.Errorf("top-up %d: %v", i, answer)
		}
		if got := left(); got != "rpm=7 tpm=1000" {
			t.Errorf("left %s", got)
		}
	}
	if p := previewOf(
		r, `{"action":"top_up",`+target+`,"amounts":{"rpm":9223372036854775807}}`,
	); p.Notes[0] != "rpm: 7 of 10 available, 10 after it." {
		t.Errorf("preview of the largest number %+v", p)
	}
	if p := previewOf(r, `{"action":"reset",`+target+`}`); p.Notes[0] != "rpm: 7 of 10 available, 10 after it." {
		t.Errorf("preview %+v", p)
	}
	r.want(200, "/api/change", `{"action":"reset",`+target+`}`)
	if got := left(); got != "rpm=10 tpm=1000" {
		t.Errorf("left %s", got)
	}
	for _, body := range []string{
		`{"action":"top_up",` + target + `}`, `{"action":"top_up",` + target + `,"amounts":{"rpm":0},"id":"x"}`,
		`{"action":"top_up",` + target + `,"amounts":{"nope":1},"id":"x"}`,
		`{"action":"top_up",` + target + `,"amounts":{"rpm":1}}`, `{"action":"reset","entity":"key"}`,
		`{"action":"reset",` + target + `,"id":"x"}`,
		`{"action":"enable",` + target + `,"reason":"x"}`, `{"action":"disable","entity":"#"}`,
		`{"action":"disable",` + target + `,` + rpm99 + `}`,
	} {
		r.want(400, "/api/change", body)
	}
}

// TestRowsShowWindowsAndShadowLimits checks the JSON of a quota and of a shadow
// limit, and that the latter does not count as tight.
func TestRowsShowWindowsAndShadowLimits(t *testing.T) {
	noon := time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)
	r := newRig(t, Options{Write: true, Now: func() time.Time { return noon }})
	const limits = `"limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":60,"shadow":true},{"name":"tokens","capacity":100,"refill_amount":0,"refill_period_seconds":0,"window":"month","zone":"Europe/Berlin"}]`
	r.want(200, "/api/change", `{"action":"set_limits","entity":"key",`+limits+`}`)
	r.use("key", "gpt-4", "tokens", 30)
	r.use("key", "gpt-4", "rpm", 1)
	r.use("key", "gpt-4", "rpm", 1) // would be refused
	r.use("busy", "gpt-4", "rpm", 8)
	rows := get[Overview](r, "/api/overview?order=tightest").Rows
	if len(rows) != 2 || rows[0].Entity != "busy" {
		t.Fatalf("rows %+v", rows)
	}
	shadow, quota := rows[1].Limits[0], rows[1].Limits[1]
	if !shadow.Shadow || shadow.MissingPercent != 100 || shadow.End != nil {
		t.Errorf("shadow limit %+v", shadow)
	}
	end := time.Date(2026, time.January, 31, 23, 0, 0, 0, time.UTC)
	if quota.Window != "month" || quota.Zone != "Europe/Berlin" || !quota.End.Equal(end) ||
		quota.FullAfter != end.Sub(noon).Seconds() || quota.Available != 70 {
		t.Errorf("quota %+v, ends %v", quota, quota.End)
	}
	used := get[Usage](r, "/api/usage?entity=key&resource=gpt-4").Snapshots
	if len(used) != 1 || used[0].WouldRefuse["rpm"] != 1 || used[0].Counters["rpm"] != 2 {
		t.Errorf("usage %+v", used)
	}
	for _, bad := range []string{
		`"window":"decade"`, `"window":"hour","zone":"Europe/Berlin"`, `"window":"day","zone":"Nowhere/City"`,
	} {
		body := `{"action":"set_limits","entity":"key","limits":[{"name":"rpm","capacity":1,"refill_amount":0,"refill_period_seconds":0,` + bad + `}]}`
		r.want(400, "/api/change", body)
	}
}

// lateMarks is a store that stores switches and cannot mark buckets.
type lateMarks struct {
	limiter.Repository
	limiter.BucketPager
}

// SetSwitch stores the switch and returns a *limiter.SwitchDelayedError.
func (l lateMarks) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	if err := l.Repository.SetSwitch(ctx, s, ev); err != nil {
		return err
	}
	return &limiter.SwitchDelayedError{Scope: s.Scope, Within: time.Minute, Err: errors.New("throttled")}
}

// TestDelayedDisable shows that the level is off, and that buckets follow.
func TestDelayedDisable(t *testing.T) {
	repo := limiter.Repository(memory.New(nil))
	r := newRig(t, Options{
		Write: true, OnError: func(error) {},
		Open: func(ctx context.Context, name string) (limiter.Repository, error) {
			view, err := repo.Namespace(ctx, name)
			return lateMarks{view, repo.(limiter.BucketPager)}, err
		},
	})
	answer := r.want(http.StatusServiceUnavailable, "/api/change", `{"action":"disable","entity":"key"}`)
	if detail, _ := answer["detail"].(string); !strings.HasPrefix(
		detail, "entity key is disabled, but some of its buckets may admit",
	) {
		t.Errorf("answer %v", answer)
	}
	if got := get[EntityView](r, "/api/entity?id=key").Disabled; len(got) != 1 {
		t.Errorf("entity %+v", got)
	}
}
