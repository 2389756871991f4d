package webdemo

import (
	"net/http"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// policy allows a page of the demo its own style sheet, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// guard admits requests of programs and of the demo's own pages, and rejects
// requests of other web pages, also by a host name that they rebind.
func guard(next http.Handler, opts *listen.HostOptions) http.Handler {
	hosts := listen.Hosts(next, opts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Protect(w.Header(), policy)
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")

		// Hosts rejects what a page sends by these fields. Without them the
		// demo's own pages pass, and links of other pages to it.
		if sameOrigin(r) || r.Header.Get("Origin") == "" && web.IsNavigation(r) {
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
