package dashboard

import (
	"net"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// policy allows the page its own files and its own server, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// protect sets the fields that every answer has. Browsers ignore
// Cross-Origin-Opener-Policy from an origin that they do not trust, and log an
// error, so that such an origin does not send it.
func protect(h http.Header, r *http.Request) {
	web.Protect(h, policy)
	if r.TLS != nil || loopback(r.Host) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cache-Control", "no-store")
}

// loopback reports whether a Host field names this machine.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	// A Host without a port is no error, and an IPv6 address then still has its
	// brackets.
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}

	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

var (
	errHost = &httplimit.Problem{
		Status: http.StatusMisdirectedRequest, Detail: "this server does not serve that host name",
	}
	errForeign = &httplimit.Problem{Status: http.StatusForbidden, Detail: "requests of other web pages are not allowed"}
	errUnknown = &httplimit.Problem{
		Status: http.StatusForbidden,
		Detail: "a change needs the field Origin or Sec-Fetch-Site of the page itself",
	}
)

// admit rejects requests that a page of another origin may have sent, and
// requests for a host name that the server does not have, which a page reaches by
// rebinding its own name to the server's address.
func (h *Handler) admit(r *http.Request) error {
	if !h.opts.Hosts.Serves(r.Host) {
		return errHost
	}

	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	own := origin == "" || ownOrigin(r, origin)
	switch {
	// Get returns the first Origin alone, behind which another could hide.
	case len(r.Header["Origin"]) > 1 || !own:
		return errForeign
	// The value none means that no page made the request: the user typed the
	// address or opened a bookmark.
	case site != "" && site != "same-origin" && site != "none" && !opensPage(r):
		return errForeign
	// Browsers send one of the two fields with every change. Without both, the
	// sender is unknown.
	case r.Method != http.MethodGet && r.Method != http.MethodHead && origin == "" && site != "same-origin":
		return errUnknown
	}

	return nil
}

// opensPage reports whether a browser opens the page as a document, such as by a
// link on another site. The page itself has no data.
func opensPage(r *http.Request) bool {
	return web.IsNavigation(r) && r.URL.Path == "/" && r.URL.RawQuery == ""
}

// ownOrigin reports whether an Origin is the origin of the page. Without TLS here, a
// proxy in front may have ended it, so that both https and http are right. With TLS,
// only https is.
func ownOrigin(r *http.Request, origin string) bool {
	return strings.EqualFold(origin, "https://"+r.Host) || r.TLS == nil && strings.EqualFold(origin, "http://"+r.Host)
}
