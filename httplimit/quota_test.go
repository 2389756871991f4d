package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// TestFieldsOfAQuota checks that w and t count to the end of the window, whether
// the quota is full, used, empty or in debt.
func TestFieldsOfAQuota(t *testing.T) {
	r := newRig(t)
	r.ok(r.lim.SetLimits(t.Context(), key, model, limiter.Quota("tokens", 100, limiter.EveryMonth),
		limiter.Quota("spend", 50, limiter.EveryDay).In("Europe/Berlin")))
	take := func(n int64) (http.Header, error) {
		h := http.Header{}
		lease, err := r.lim.Acquire(t.Context(), limiter.Request{
			Entity: key, Resource: model, Consume: limiter.Tokens("tokens", n),
		})
		if err == nil {
			(*httplimit.Fields)(nil).Set(h, lease.Decision())
		}
		return h, err
	}
	// Noon in UTC: 11 hours to midnight in Berlin, and 16.5 days to February. The
	// windows are a day and the 31 days of January.
	const policy = `"spend";q=50;w=86400, "tokens";q=100;w=2678400`
	for _, step := range []struct {
		n     int64
		state string
	}{{0, `"spend";r=50, "tokens";r=100`}, {60, `"spend";r=50, "tokens";r=40;t=1425600`}} {
		h, err := take(step.n)
		r.ok(err)
		r.equal("policy", h.Get("RateLimit-Policy"), policy)
		r.equal("state", h.Get("RateLimit"), step.state)
	}
	_, err := r.lim.Adjust(t.Context(), limiter.Request{
		Entity: key, Resource: model, Consume: limiter.Tokens("tokens", 340),
	})
	r.ok(err)
	d, err := r.lim.Explain(t.Context(), limiter.Request{Entity: key, Resource: model})
	r.ok(err)
	h := http.Header{}
	(&httplimit.Fields{Legacy: true}).Set(h, d)
	// a step of 100 in February, though 300 are missing
	r.equal("state in debt", h.Get("RateLimit"), `"spend";r=50, "tokens";r=0;t=1425600`)
	r.equal("reset", h.Get("X-Ratelimit-Reset"), "1425600")
}

// TestARefusalByAQuota checks the wait and the window in the document.
func TestARefusalByAQuota(t *testing.T) {
	r := newRig(t)
	r.ok(r.lim.SetLimits(t.Context(), key, model, limiter.Quota("rpm", 1, limiter.EveryDay).In("Europe/Berlin"),
		limiter.Quota("tpm", 1000, limiter.EveryHour)))
	handler := r.handler(hello, nil)
	serve(t.Context(), handler)
	w := serve(t.Context(), handler)
	r.equal("status", w.Code, 429)
	r.equal("retry", w.Header().Get("Retry-After"), "39600")
	r.equal("state", w.Header().Get("RateLimit"), `"rpm";r=0;t=39600, "tpm";r=900;t=3600`)
	r.equal("limits", decode(t, w.Body.String()).Limits, []httplimit.LimitState{
		{Name: "rpm", Capacity: 1, Window: "day", Zone: "Europe/Berlin", Requested: 1, Exceeded: true},
		{Name: "tpm", Capacity: 1000, Window: "hour", Available: 900, Requested: 100},
	})
}

// TestShadowLimitsAreNotShown checks fields and document of an entity with a
// shadow limit that would refuse, and the fields of one that has no other.
func TestShadowLimitsAreNotShown(t *testing.T) {
	r := newRig(t)
	r.ok(r.lim.SetLimits(t.Context(), key, model, limiter.PerMinute("rpm", 1).Shadow(), limiter.PerMinute("tpm", 250)))
	handler := r.handler(hello, &httplimit.Options{Fields: httplimit.Fields{Legacy: true}})
	for _, state := range []string{`"tpm";r=150;t=1`, `"tpm";r=50;t=1`} {
		w := serve(t.Context(), handler)
		r.equal("status", w.Code, 200)
		r.equal("policy", w.Header().Get("RateLimit-Policy"), `"tpm";q=250;w=60`)
		r.equal("state", w.Header().Get("RateLimit"), state)
		r.equal("legacy", w.Header().Get("X-Ratelimit-Limit"), "250")
	}
	w := serve(t.Context(), handler)
	r.equal("status", w.Code, 429)
	p := decode(t, w.Body.String())
	r.equal("violated", p.ViolatedPolicies, []string{"tpm"})
	r.equal("limits", len(p.Limits), 1)
	if text := w.Body.String(); strings.Contains(text, "rpm") {
		t.Errorf("the document names the shadow limit: %s", text)
	}
	r.ok(r.lim.SetLimits(t.Context(), key, model, limiter.PerMinute("rpm", 1).Shadow(),
		limiter.PerMinute("tpm", 1).Shadow()))
	w = serve(t.Context(), handler)
	r.equal("status", w.Code, 200)
	r.equal("fields", w.Header().Get("RateLimit-Policy"), "")
}

// TestADisabledEntityIs403 checks that the answer shows neither the level nor the
// reason, and asks for no retry. A lease that is open settles.
func TestADisabledEntityIs403(t *testing.T) {
	r := newRig(t)
	const parent = "secret-project"
	_, err := r.lim.CreateEntity(context.Background(), limiter.Entity{ID: key, Parent: parent, Cascade: true})
	r.ok(err)
	handler := r.handler(func(_ http.ResponseWriter, q *http.Request) {
		r.works(r.lim.Disable(q.Context(), limiter.Scope{Entity: parent}, "unpaid"))
		r.works(httplimit.Used(q.Context(), "tpm", 300))
	}, nil)
	r.equal("status before", serve(t.Context(), handler).Code, 200)
	w := serve(t.Context(), handler)
	r.equal("status", w.Code, 403)
	r.equal("retry", w.Header().Values("Retry-After"), []string(nil))
	r.equal("fields", w.Header().Get("RateLimit"), "")
	r.equal("document", decode(t, w.Body.String()), httplimit.Problem{
		Type: httplimit.TypeBlank, Title: "Forbidden", Status: 403, Detail: "access is disabled",
	})
	r.reported()
	r.ok(r.lim.Enable(t.Context(), limiter.Scope{Entity: parent}))
	r.available(2, 700)
	r.ended(1)
}

// TestATransportIsDisabled checks that a call of a disabled entity fails at once.
func TestATransportIsDisabled(t *testing.T) {
	r := newRig(t)
	r.ok(r.lim.Disable(t.Context(), limiter.Scope{Resource: model}, "upstream bill"))
	client := &http.Client{Transport: httplimit.NewTransport(r.lim, ask, nil)}
	resp, err := client.Do(r.request(http.MethodGet, "http://127.0.0.1:1/"))
	if err == nil {
		_ = resp.Body.Close()
	}
	if off, ok := errors.AsType[*limiter.DisabledError](err); !ok || off.Reason != "upstream bill" {
		t.Errorf("%v", err)
	}
}
