package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
)

// reason is an error as the SDKs read it.
type reason struct {
	Type   string
	Title  string
	Status int
	Detail string
	Error  struct{ Message, Type, Code, Param string }
}

// TestErrorsHaveTheFormOfTheAPI checks the answers of the proxy itself to calls of
// both APIs. The members of a problem document stay.
func TestErrorsHaveTheFormOfTheAPI(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), func(o *Options) {
		o.MaxBody, o.Paths = 4096, nil
		o.Identify = func(r *http.Request) (string, error) {
			if strings.Contains(r.Header.Get("Authorization"), "unknown") {
				return "", unauthorized("the API key is not known here")
			}
			return byKey(r)
		}
	})
	ctx := context.Background()
	for key, limit := range map[string]limiter.Limit{
		"sk-minute": limiter.PerMinute("rpm", 1), "sk-month": limiter.Quota("rpm", 1, limiter.EveryMonth),
	} {
		if err := r.lim.SetLimits(ctx, HashKey(key), "m", limit); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.lim.Disable(ctx, limiter.Scope{Entity: HashKey("sk-off")}, "left"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"sk-minute", "sk-month"} {
		resp, _ := r.post(chatPath, plainCall, "Authorization", "Bearer "+key)
		r.wantStatus(resp, 200)
	}
	for _, tc := range []struct {
		name, path, body, key string
		status                int
		openAI, code, claude  string
	}{
		{
			"invalid", "", `{"model":1}`, "sk-a", 400, "invalid_request_error", "invalid_request",
			"invalid_request_error",
		},
		{
			"unknown key", "", plainCall, "unknown", 401, "invalid_request_error", "invalid_api_key",
			"authentication_error",
		},
		{"disabled", "", plainCall, "sk-off", 403, "permission_error", "access_disabled", "permission_error"},
		{"not listed", "/batches", "{}", "sk-a", 404, "invalid_request_error", "not_found", "not_found_error"},
		{
			"large", "", strings.Repeat(" ", 5000), "sk-a", 413, "invalid_request_error", "request_too_large",
			"request_too_large",
		},
		{"exceeded", "", plainCall, "sk-minute", 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
		{"spent", "", plainCall, "sk-month", 429, "insufficient_quota", "insufficient_quota", "rate_limit_error"},
	} {
		for _, path := range []string{chatPath, "/v1/messages"} {
			resp, body := r.post(path+tc.path, tc.body, "Authorization", "Bearer "+tc.key, "Anthropic-Version",
				strings.TrimPrefix(path, chatPath))
			want := reason{Type: "error", Status: tc.status, Title: http.StatusText(tc.status)}
			if tc.status == http.StatusRequestEntityTooLarge {
				want.Title = "Content Too Large" // net/http has an older phrase
			}
			if want.Error.Type = tc.claude; path == chatPath {
				want.Type, want.Error.Type, want.Error.Code = httplimit.TypeBlank, tc.openAI, tc.code
			}
			checkReason(t, tc.name+" "+path, resp, body, want)
		}
	}
}

func checkReason(t *testing.T, name string, resp reply, body string, want reason) {
	t.Helper()
	var got reason
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%s: %v: %s", name, err, body)
	}
	if want.Status == http.StatusTooManyRequests {
		want.Title = "Quota exceeded"
		if want.Type == httplimit.TypeBlank {
			want.Type = httplimit.TypeQuotaExceeded
		}
	}
	if got.Error.Message == "" || got.Error.Message != got.Detail {
		t.Errorf("%s: the message is %q, the detail %q", name, got.Error.Message, got.Detail)
	}
	want.Detail, want.Error.Message, want.Error.Param = got.Detail, got.Error.Message, got.Error.Param
	if got != want || resp.StatusCode != want.Status {
		t.Errorf("%s: status %d and %+v, want %+v", name, resp.StatusCode, got, want)
	}
}

// TestBusyErrorsHaveTheFormOfTheAPI checks the same for an upstream that is away and
// a proxy that shuts down.
func TestBusyErrorsHaveTheFormOfTheAPI(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	r.upstream.Close()
	resp, body := r.post("/v1/messages", plainCall)
	want := reason{Type: "error", Title: "Bad Gateway", Status: 502}
	want.Error.Type = "api_error"
	checkReason(t, "away", resp, body, want)

	r.proxy.Drain(t.Context())
	resp, body = r.post(chatPath, plainCall)
	want = reason{Type: httplimit.TypeBlank, Title: "Service Unavailable", Status: 503}
	want.Error.Type, want.Error.Code = "server_error", "overloaded"
	checkReason(t, "drained", resp, body, want)
}

// TestModelsAreListedWithoutLimits checks GET /v1/models, which quick starts set no
// limits for: the client is identified, the operator's key is sent, and a limit
// counts the call if there is one.
func TestModelsAreListedWithoutLimits(t *testing.T) {
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := Options{}
	r := newRigOn(t, lim, answerJSON(`{"data":[]}`), func(o *Options) {
		o.Credentials, o.Identify, o.Paths, o.OtherResource = Credentials{
			"Authorization", "Bearer operator",
		}, byKey, append(DefaultPaths(), "POST /v1/files"), "list"
		at = *o
	})
	get := func(key string) reply {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+"/v1/models", http.NoBody)
		req.Header.Set("Authorization", key)
		resp, _ := r.do(req)
		return resp
	}
	r.wantStatus(get(""), 401)
	r.wantStatus(get("Bearer sk-a"), 200)
	if got := r.lastHeader().Get("Authorization"); got != "Bearer operator" {
		t.Errorf("the upstream got %q", got)
	}
	resp, _ := r.post("/v1/files", "x")
	r.wantStatus(resp, 500) // what changes something needs limits
	if err := lim.Disable(t.Context(), limiter.Scope{Entity: HashKey("sk-a")}, ""); err != nil {
		t.Fatal(err)
	}
	r.wantStatus(get("Bearer sk-a"), 403)
	if err := lim.SetResourceDefaults(t.Context(), at.OtherResource, limiter.PerMinute("rpm", 2)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{200, 200, 429} {
		r.wantStatus(get("Bearer sk-b"), want)
	}
	r.proxy.calls.Wait()
	if n := r.proxy.open.Load(); n != 0 {
		t.Errorf("%d leases are open", n)
	}
}
