package dashboard

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

func TestEveryAnswerIsProtected(t *testing.T) {
	r := newRig(t, Options{})
	for _, q := range []request{
		{path: "/"},
		{path: "/nothing"},
		{path: "/api/info"},
		{path: "/api/info", cookie: r.cookie},
		{path: "/api/info", header: map[string]string{"Host": "evil.example"}},
		{path: "/api/session", body: "{}"},
		{path: "/api/session", method: http.MethodPut},
	} {
		h := r.send(q).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if q.header["Host"] != "" && name == "Cross-Origin-Opener-Policy" {
				want = "" // not loopback, without TLS
			}
			if got := h.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", q.method, q.path, name, got, want)
			}
		}
		cache := "no-store"
		if q.path == "/" {
			cache = "no-cache"
		}
		if got := h.Get("Cache-Control"); got != cache {
			t.Errorf("%s: Cache-Control is %q, want %q", q.path, got, cache)
		}
		for name := range h {
			if len(name) > 14 && name[:14] == "Access-Control" {
				t.Errorf("%s: has %s", q.path, name)
			}
		}
	}
}

func TestRequestsOfOtherPagesAreRefused(t *testing.T) {
	r := newRig(t, Options{Write: true, Hosts: listen.HostOptions{Names: []string{"limits.example"}}})
	const change = `{"action":"delete_limits","resource":"gpt-4"}`
	navigation := map[string]string{
		"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
	}
	frame := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
	for _, tt := range []struct {
		name string
		q    request
		want int
	}{
		{"own host", request{path: "/api/info"}, 200},
		{"rebound name", request{path: "/api/info", header: map[string]string{"Host": "evil.example:9236"}}, 421},
		{"rebound name, page", request{path: "/", header: map[string]string{"Host": "evil.example"}}, 421},
		{"no host", request{path: "/", header: map[string]string{"Host": ""}}, 421},
		{
			"allowed name, no session there",
			request{path: "/api/info", header: map[string]string{"Host": "limits.example"}},
			401,
		},
		{
			"own origin",
			request{
				path:   "/api/info",
				header: map[string]string{"Origin": "http://127.0.0.1:9236", "Sec-Fetch-Site": "same-origin"},
			},
			200,
		},
		{"other origin", request{path: "/api/info", header: map[string]string{"Origin": "http://evil.example"}}, 403},
		{"other port", request{path: "/api/info", header: map[string]string{"Origin": "http://127.0.0.1:80"}}, 403},
		{"null origin", request{path: "/api/info", header: map[string]string{"Origin": "null"}}, 403},
		{
			"origin with a question mark",
			request{path: "/api/info", header: map[string]string{"Origin": "http://127.0.0.1:9236?"}},
			403,
		},
		{
			"origin with a hash",
			request{path: "/api/info", header: map[string]string{"Origin": "http://127.0.0.1:9236#"}},
			403,
		},
		{
			"origin with a user",
			request{path: "/api/info", header: map[string]string{"Origin": "http://@127.0.0.1:9236"}},
			403,
		},
		{
			"origin with a path",
			request{path: "/api/info", header: map[string]string{"Origin": "http://127.0.0.1:9236/x"}},
			403,
		},
		{"cross-site read", request{path: "/api/info", header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403},
		{"same-site read", request{path: "/api/info", header: map[string]string{"Sec-Fetch-Site": "same-site"}}, 403},
		{
			"cross-site stream",
			request{path: "/api/stream", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
			403,
		},
		{"link to the page", request{path: "/", header: navigation}, 200},
		{"link to data", request{path: "/api/info", header: navigation}, 403},
		{"frame", request{path: "/", header: frame}, 403},
		{
			"cross-site script",
			request{
				path: "/api.js",
				header: map[string]string{
					"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script",
				},
			},
			403,
		},
		{
			"change without a sign of the page",
			request{path: "/api/change", body: change, header: map[string]string{"Origin": ""}},
			403,
		},
		{
			"change by site none",
			request{
				path: "/api/change", body: change,
				header: map[string]string{"Origin": "", "Sec-Fetch-Site": "none"},
			},
			403,
		},
		{
			"change of another page",
			request{path: "/api/change", body: change, header: map[string]string{"Origin": "http://evil.example"}},
			403,
		},
		{
			"change as a form",
			request{path: "/api/change", body: change, header: map[string]string{"Content-Type": "text/plain"}},
			415,
		},
		{
			"change, encoded",
			request{path: "/api/change", body: change, header: map[string]string{"Content-Encoding": "gzip"}},
			415,
		},
		{"change by GET", request{path: "/api/change", method: http.MethodGet}, 405},
		{
			"logout of another page",
			request{
				path: "/api/session", method: http.MethodDelete,
				header: map[string]string{"Origin": "http://evil.example"},
			},
			403,
		},
		{
			"change of the page",
			request{
				path: "/api/change", body: change,
				header: map[string]string{"Origin": "", "Sec-Fetch-Site": "same-origin"},
			},
			200,
		},
	} {
		tt.q.cookie = r.cookie
		if w := r.send(tt.q); w.Code != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
	}
}

func TestOwnOriginFollowsTLS(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://limits.example/api/session", nil)
	for origin, want := range map[string]bool{
		"http://limits.example": true, "https://limits.example": true, "https://LIMITS.example": true,
		"ftp://limits.example": false, "limits.example": false, "": false,
	} {
		if got := ownOrigin(r, origin); got != want {
			t.Errorf("plain %q: %v, want %v", origin, got, want)
		}
	}
	r.TLS = &tls.ConnectionState{}
	if ownOrigin(r, "http://limits.example") {
		t.Error("a page without TLS counts as the page with it")
	}
}
