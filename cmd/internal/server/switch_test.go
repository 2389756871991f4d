package server

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

// TestDisableAndEnable switches a parent off and on. Its child gets 403 without the
// reason, and a lease that is open settles.
func TestDisableAndEnable(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAdmin, Namespace: "default"},
		TokenEntry{Role: RoleAcquire, Namespace: "default"}, TokenEntry{Role: RoleRead, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	seed(t, r)
	admin, client, reader := secret[0], secret[1], secret[2]
	lease := r.acquire(client, "child", `{"tpm":100}`)
	for _, role := range []string{client, reader} {
		r.want(http.StatusForbidden, request{path: "/v1/disable", token: role, body: `{"entity_id":"parent"}`})
	}
	state := r.want(200, request{path: "/v1/disable", token: admin, body: `{"entity_id":"parent","reason":"unpaid"}`})
	if state["disabled"] != true || state["level"] != "entity_default" || state["entity_id"] != "parent" ||
		state["reason"] != "unpaid" || state["since"] == nil {
		t.Errorf("state %v", state)
	}
	refusal := r.want(http.StatusForbidden, request{
		path: "/v1/acquire", token: client, body: acquireJSON("child", `{"tpm":1}`),
	})
	if refusal["detail"] != "access of child to gpt-4 is disabled" || strings.Contains(fmt.Sprint(refusal), "unpaid") {
		t.Errorf("refusal %v", refusal)
	}
	r.want(http.StatusForbidden, request{
		path: "/v1/leases/" + lease + "/consume", token: client, body: `{"consume":{"tpm":1}}`,
	})
	r.want(200, request{path: "/v1/leases/" + lease + "/commit", token: client, body: `{"used":{"tpm":70}}`})

	explained := r.want(200, request{path: "/v1/explain", token: reader, body: acquireJSON("child", `{"tpm":1}`)})
	if off, _ := explained["disabled"].(map[string]any); explained["admitted"] != false || off["reason"] != "unpaid" ||
		off["entity_id"] != "parent" {
		t.Errorf("explanation %v", explained)
	}
	for _, path := range []string{"/v1/entities/child/status", "/v1/entities/child"} {
		if shown := r.want(200, request{
			method: http.MethodGet, path: path, token: reader,
		}); len(shown["disabled"].([]any)) != 1 {
			t.Errorf("%s: %v", path, shown)
		}
	}

	if w := r.send(request{
		method: http.MethodGet, path: "/v1/entities", token: reader,
	}); strings.Count(w.Body.String(), `"disabled"`) != 1 {
		t.Errorf("entities %s", w.Body)
	}
	if on := r.want(200, request{
		path: "/v1/enable", token: admin, body: `{"entity_id":"parent"}`,
	}); on["disabled"] != false || on["reason"] != nil {
		t.Errorf("state %v", on)
	}
	r.want(http.StatusNotFound, request{path: "/v1/enable", token: admin, body: `{"entity_id":"parent"}`})
	if got := r.left("child"); got != "rpm=10 tpm=930" {
		t.Errorf("left %s", got)
	}
	var actions []string
	for ev, err := range r.lim.AuditEvents(context.Background(), "parent", "") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Action != "entity_created" { // by another limiter, in the same millisecond
			actions = append(actions, ev.Action+" by "+ev.Principal)
		}
	}
	if diff := cmp.Diff([]string{"enabled by t0", "disabled by t0"}, actions); diff != "" {
		t.Errorf("audit trail (-want +got):\n%s", diff)
	}
}

// TestEverythingNeedsAWord checks that an empty body does not switch all off.
func TestEverythingNeedsAWord(t *testing.T) {
	r := newMemoryRig(t, Options{})
	for _, body := range []string{`{}`, `{"all":false}`, `{"all":true,"resource":"gpt-4"}`, `{"reason":"x"}`} {
		r.want(http.StatusBadRequest, request{path: "/v1/disable", body: body})
	}
	r.want(http.StatusBadRequest, request{path: "/v1/disable", body: `{"entity_id":"#"}`})
	r.acquire("", "key", `{"rpm":1}`)
	r.want(200, request{path: "/v1/disable", body: `{"all":true,"reason":"maintenance"}`})
	r.want(http.StatusForbidden, request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	r.want(200, request{path: "/v1/disable", body: `{"resource":"gpt-4"}`})
	if w := r.send(request{
		method: http.MethodGet, path: "/v1/resources",
	}); !strings.Contains(w.Body.String(), `"disabled":{"level":"resource"`) {
		t.Errorf("resources %s", w.Body)
	}
	if system := r.want(200, request{method: http.MethodGet, path: "/v1/system/limits"}); system["disabled"] == nil {
		t.Errorf("system %v", system)
	}
}

// TestPagesOfSwitches checks that pages that follow the links have every level
// once, also of names that are the beginning of others.
func TestPagesOfSwitches(t *testing.T) {
	r := newMemoryRig(t, Options{})
	scopes := []limiter.Scope{
		{},
		{Resource: "gpt-4"},
		{Entity: "a"},
		{Entity: "a", Resource: "gpt-4"},
		{Entity: "a.b"},
		{Entity: "a-b", Resource: "x"},
	}
	for _, of := range scopes {
		if err := r.lim.Disable(context.Background(), of, ""); err != nil {
			t.Fatal(err)
		}
	}
	next, seen := "/v1/switches?limit=1", 0
	for ; next != "" && seen < 20; seen++ {
		w := r.send(request{method: http.MethodGet, path: next})
		if w.Code != 200 || strings.Count(w.Body.String(), `"level"`) != 1 {
			t.Fatalf("%s: %d %s", next, w.Code, w.Body)
		}
		next = strings.TrimSuffix(strings.TrimPrefix(w.Header().Get("Link"), "<"), `>; rel="next"`)
	}
	if seen != len(scopes) {
		t.Errorf("%d levels, want %d", seen, len(scopes))
	}
}

// TestResetAndTopUp checks the balances in the answers, that a repetition of a
// top-up adds nothing, and who may call.
func TestResetAndTopUp(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAdmin, Namespace: "default"}, TokenEntry{
		Role: RoleAcquire, Namespace: "default",
	})
	r := newMemoryRig(t, Options{Tokens: tokens})
	r.acquire(secret[1], "key", `{"rpm":4,"tpm":900}`)
	fill := func(status int, token, verb, body string) string {
		t.Helper()
		w := r.send(request{path: "/v1/entities/key/" + verb, token: token, body: body})
		if w.Code != status {
			t.Fatalf("%s %s: %d %s", verb, body, w.Code, w.Body)
		}
		return r.left("key")
	}
	const more = `{"resource":"gpt-4","amounts":{"tpm":500},"id":"invoice-1"}`
	for _, step := range []struct{ token, verb, body, want string }{
		{secret[0], "top-up", more, "rpm=6 tpm=600"},
		{secret[0], "top-up", more, "rpm=6 tpm=600"}, // a repetition
		{secret[0], "top-up", strings.Replace(more, "-1", "-2", 1), "rpm=6 tpm=1000"},
		{secret[0], "reset", `{"resource":"gpt-4","limits":["rpm"]}`, "rpm=10 tpm=1000"},
	} {
		if got := fill(200, step.token, step.verb, step.body); got != step.want {
			t.Errorf("%s: %s left, want %s", step.body, got, step.want)
		}
	}
	for i := range 2 {
		answered := r.want(200, request{
			path: "/v1/entities/key/top-up", token: secret[0], body: strings.Replace(more, "-1", "-3", 1),
		})
		if limits, _ := answered["limits"].([]any); answered["done"] != (i == 0) || len(limits) != 2 {
			t.Errorf("top-up %d: %v", i, answered)
		}
	}
	w := r.send(request{path: "/v1/entities/key/reset", token: secret[0], body: `{"resource":"gpt-4"}`})
	if !strings.Contains(w.Body.String(), `"available":1000`) || strings.Count(w.Body.String(), `"limit_name"`) != 2 {
		t.Errorf("answer %s", w.Body)
	}
	for _, verb := range []string{"reset", "top-up"} {
		fill(http.StatusForbidden, secret[1], verb, `{"resource":"gpt-4"}`)
	}
	for _, body := range []string{
		`{"resource":"gpt-4","amounts":{},"id":"x"}`, `{"resource":"gpt-4","amounts":{"tpm":0},"id":"x"}`,
		`{"resource":"gpt-4","amounts":{"tpm":1}}`,
	} {
		fill(http.StatusBadRequest, secret[0], "top-up", body)
	}
	fill(http.StatusNotFound, secret[0], "top-up", `{"resource":"gpt-4","amounts":{"nope":1},"id":"x"}`)
}

// TestSparedLimitsOverTheNetwork acquires beyond a shadow limit. The answer says
// so, the fields do not, and a rollback gives the spared limit nothing.
func TestSparedLimitsOverTheNetwork(t *testing.T) {
	noon := time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)
	r := newRig(t, memory.New(nil), Options{Now: func() time.Time { return noon }})
	if err := r.lim.SetLimits(
		context.Background(), "key", "gpt-4", limiter.Quota("rpm", 3, limiter.EveryMonth).Shadow(),
		limiter.PerMinute("tpm", 1000),
	); err != nil {
		t.Fatal(err)
	}
	r.acquire("", "key", `{"rpm":2,"tpm":1}`)
	w := r.send(request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":2,"tpm":1}`)})
	for _, part := range []string{
		`"would_refuse":true`, `"window":"month"`, `"window_end":"2026-02-01T00:00:00Z"`, `"shadow":true`,
	} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s is missing in %s", part, w.Body)
		}
	}
	if got := w.Header().Get("RateLimit"); got != `"tpm";r=998;t=1` {
		t.Errorf("RateLimit %s", got)
	}
	_, rest, _ := strings.Cut(w.Body.String(), `"lease_id":"`)
	r.want(200, request{path: "/v1/leases/" + rest[:32] + "/rollback", body: `{}`})
	if got := r.left("key"); got != "rpm=1 tpm=999" {
		t.Errorf("left %s", got)
	}
}

// lateMarks is a store that stores switches and cannot mark buckets.
type lateMarks struct{ limiter.Repository }

// Namespace returns a view that cannot mark buckets either.
func (l lateMarks) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := l.Repository.Namespace(ctx, name)
	return lateMarks{view}, err
}

// SetSwitch stores the switch and returns a *limiter.SwitchDelayedError.
func (l lateMarks) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	if err := l.Repository.SetSwitch(ctx, s, ev); err != nil {
		return err
	}
	return &limiter.SwitchDelayedError{
		Scope: s.Scope, Resources: []string{"gpt-4"}, Within: time.Minute,
		Err: errors.New("table secret-name is throttled"),
	}
}

// TestDelayedDisable answers 503 with a sentence that says that the level is off,
// and nothing about the store.
func TestDelayedDisable(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAdmin, Namespace: "default"})
	var reported []error
	r := newRig(t, lateMarks{memory.New(nil)}, Options{Tokens: tokens, OnError: func(err error) {
		reported = append(reported, err)
	}})
	seed(t, r)
	w := r.send(request{path: "/v1/disable", token: secret[0], body: `{"entity_id":"parent"}`})
	const want = "entity parent is disabled, but its buckets of gpt-4 may admit calls of other processes for " +
		"1m0s; disable it again to shorten that"
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
		!strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if len(reported) != 1 || !strings.Contains(reported[0].Error(), "secret-name") {
		t.Errorf("reported %v", reported)
	}
}
