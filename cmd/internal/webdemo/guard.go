package webdemo

import (
	"net/http"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// policy allows a page of the demo its own style sheet, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// guard admits requests of programs and of the demo's own pages, and rejects
// requests of other web pages, also by a host name that they rebind.
func guard(next http.Handler, opts *listen.HostOptions) http.Handler {
	hosts := listen.Hosts(next, opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")

		// Hosts rejects what a page sends by these fields. Without them the
		// demo's own pages, and links to it, pass.
		if sameOrigin(r) || isNavigation(r) {
			r = r.Clone(r.Context())
			r.Header.Del("Origin")
			r.Header.Del("Sec-Fetch-Site")
		}

		hosts.ServeHTTP(w, r)
	})
}

// sameOrigin reports whether a page of the server sent the request. The host of the
// request is checked later.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "http://"+r.Host || origin == "https://"+r.Host
}

// isNavigation reports whether a person follows a link of another page to a page of
// the demo. The other page cannot read the answer.
func isNavigation(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && h.Get("Origin") == "" && h.Get("Sec-Fetch-Mode") == "navigate" &&
		h.Get("Sec-Fetch-Dest") == "document"
}
