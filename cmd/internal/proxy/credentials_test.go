package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/llm"
)

// TestCredentialsDoNotReachTheUpstream checks every spelling of a credential that a
// server could understand, with the proxy's own key and without.
func TestCredentialsDoNotReachTheUpstream(t *testing.T) {
	names := []string{
		"X_Api_Key", "x-api_key", "X_API-KEY", "XApiKey", "X.Api.Key", "api_key", "Api-Key", "ApiKey",
		"X-Goog-Api-Key", "x_goog_api_key", "OpenAI-Api-Key",
		"Anthropic_Api_Key", "Authorization_", "X-Authorization", "x_authorization", "Proxy_Authorization",
		"Authentication", "X-Auth-Token", "X-Access-Token",
		"X-Auth-Key", "Token", "X-Token", "Cookie", "Cookie2", "Ocp-Apim-Subscription-Key", "X-Functions-Key",
		"X-Amz-Security-Token", "X-Client-Secret", "X-Remote-User",
		"Helicone-Auth", "Private-Token", "Api-Token", "X-OpenAI-Key", "X_Jwt",
	}
	const secret = "sk-secret"
	for _, own := range []Credentials{{}, {"Authorization", "Bearer operator"}, {"X-Api-Key", "operator"}} {
		r := newRig(t, answerJSON(plainChat), func(o *Options) { o.Credentials = own })
		for _, name := range names {
			if own.Name == "" && name == "Api-Key" {
				continue // a second key is refused
			}
			raw := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\nConnection: " +
				"close\r\nX-Stainless-Lang: go\r\n"
			if own.Name != "" && name == "Api-Key" {
				raw += "Api-Key: " + secret + "\r\n"
			} else {
				raw += auth + auth + "X-Api-Key: \r\n" + name + ": " + secret + "\r\n"
			}
			resp, body := r.send(raw + "\r\n" + plainCall)
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: status %d, %s", name, resp.StatusCode, body)
			}
			checkKeys(t, name, r.lastHeader(), own)
		}
	}
}

// checkKeys checks that a header has one key, and no other credential.
func checkKeys(t *testing.T, name string, h http.Header, own Credentials) {
	t.Helper()
	want := own
	if own.Name == "" {
		want = Credentials{"Authorization", "Bearer " + aliceKey}
	}
	for field, values := range h {
		for _, value := range values {
			if strings.Contains(value, "sk-secret") || own.Name != "" && strings.Contains(value, aliceKey) ||
				isCredential(field) && field != want.Name {
				t.Errorf("%s: the upstream got %s: %s", name, field, value)
			}
		}
	}
	if got := h.Values(want.Name); len(got) != 1 || got[0] != want.Value {
		t.Errorf("%s: the upstream got %s: %q, want %q", name, want.Name, got, want.Value)
	}
	if h.Get("X-Stainless-Lang") != "go" {
		t.Errorf("%s: other headers are gone: %v", name, h)
	}
}

// TestClientsDoNotChooseTheAccount checks that a client cannot bill another
// organization of the operator, and that one with a key of its own can.
func TestClientsDoNotChooseTheAccount(t *testing.T) {
	names := []string{
		"OpenAI-Organization", "Openai_organization", "OpenAI-Organization-ID", "OpenAI-Project",
		"openai_project", "OpenAI-Org-ID", "X-Goog-User-Project", "Anthropic-Workspace-Id",
	}
	for _, own := range []Credentials{{}, {"Authorization", "Bearer operator"}} {
		for _, account := range []http.Header{nil, {"Openai-Project": {"proj-operator"}}} {
			r := newRig(t, answerJSON(plainChat), func(o *Options) { o.Credentials, o.Account = own, account })
			for _, name := range names {
				raw := "POST " + chatPath + "?userProject=chosen&x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: " +
					"60\r\nConnection: close\r\n" + auth + name + ": chosen\r\nX-Stainless-Lang: go\r\n"
				if resp, body := r.send(raw + "\r\n" + plainCall); resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: status %d, %s", name, resp.StatusCode, body)
				}
				h, query := r.lastHeader(), r.seen[len(r.seen)-1].URL.RawQuery
				chosen := 0
				for _, values := range h {
					if values[0] == "chosen" {
						chosen++
					}
				}
				if passes := chosen == 1 && query == "userProject=chosen&x=1"; passes != (own.Name == "") ||
					own.Name != "" && (chosen > 0 || query != "x=1") {
					t.Errorf("with the key %q, %s: the upstream got %v, %s", own.Value, name, h, query)
				}
				if got := h.Get("Openai-Project") == "proj-operator"; got != (own.Name != "" && account != nil) {
					t.Errorf("with the key %q and %v: the upstream got %v", own.Value, account, h)
				}
				if h.Get("X-Stainless-Lang") != "go" {
					t.Errorf("%s: other headers are gone: %v", name, h)
				}
			}
		}
	}
}

// TestFunctionKeysAreRemoved checks that a client does not choose the key of an Azure
// function beside the key of the operator.
func TestFunctionKeysAreRemoved(t *testing.T) {
	const query = "code=k&x=1&Code=k&%63ode=k&%2563ode=k&c_ode=k&barcode=2"
	for name, want := range map[string]string{"": query, "Authorization": "x=1&barcode=2"} {
		p := &Proxy{opts: Options{Credentials: Credentials{Name: name}}}
		if got := p.withoutCredentials(query); got != want {
			t.Errorf("with %q: %q, want %q", name, got, want)
		}
	}
}

// TestCredentialsInQueriesAreRemoved checks that the rest of a query stays.
func TestCredentialsInQueriesAreRemoved(t *testing.T) {
	for query, want := range map[string]string{
		"":                                     "",
		"api-version=2024-10-21&x=%20":         "api-version=2024-10-21&x=%20",
		"key=sk&x=1":                           "x=1",
		"api_key=sk&api-key=sk&apikey=sk":      "",
		"x=1&access_token=sk":                  "x=1",
		"x=1&%6bey=sk&%256bey=sk":              "x=1",
		"subscription-key=sk&limit=2":          "limit=2",
		"_method=DELETE&x-http-method=DELETE&": "",
		"after=f_1&key":                        "after=f_1",
		"user_key=sk&jwt=sk&pageToken=2":       "pageToken=2",
	} {
		if got := (&Proxy{}).withoutCredentials(query); got != want {
			t.Errorf("%q became %q, want %q", query, got, want)
		}
	}
	r := newRig(t, answerJSON("{}"), nil)
	r.post("/v1/files?key=sk-secret&x=1;key=sk-secret&y=2&Api_Key=sk-secret", "")
	if got := r.seen[0].URL.RawQuery; got != "y=2" {
		t.Errorf("the upstream got the query %q", got)
	}
}

// TestKeysAreWhole checks that no server reads a part of a key as another key.
func TestKeysAreWhole(t *testing.T) {
	r := newRig(t, answerJSON(plainChat), nil)
	for _, value := range []string{
		"Bearer sk-a, Bearer sk-b", "Bearer sk-a sk-b", "Bearer sk-a;x", "Bearer \"sk-a\"", "Bearer sk-\u00e9",
	} {
		resp, _ := r.post(chatPath, plainCall, "Authorization", value)
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", value, resp.StatusCode)
		}
	}
}

// TestEveryChargeIsLogged checks that the line of a call that was charged has its
// tokens and its cost, also if the upstream gave no answer.
func TestEveryChargeIsLogged(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}, func(o *Options) {
		o.Prices = func(string, time.Time) (llm.Price, error) {
			return llm.Price{Input: 2_000_000, Output: 8_000_000}, nil
		}
	})
	resp, _ := r.post(chatPath, `{"model":"m","max_tokens":100,"messages":[{"content":"12345678"}]}`)
	r.wantStatus(resp, 502)
	r.proxy.calls.Wait()
	for _, want := range []string{
		`"outcome":"failed"`, `"input_tokens":2`, `"output_tokens":100`, `"usage_reported":false`,
		`"cost_microdollars":804`,
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %s: %s", want, r.log)
		}
	}
}
