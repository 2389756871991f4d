package listen

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Hosts rejects requests that a web page may have sent: requests with an Origin,
// and requests for a host name that the server does not have, which a page
// reaches by rebinding its own name to the server's address. IP addresses and
// localhost always pass; other names must be in names, where "*" stands for any.
// Pages cannot send the requests that pass.
func Hosts(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "", fromPage(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "requests of web pages are not allowed", http.StatusForbidden)
		case !knownHost(r.Host, names):
			http.Error(w, "this server does not serve that host name", http.StatusMisdirectedRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromPage reports whether a browser sent a request for a page of another site.
func fromPage(site string) bool { return site == "cross-site" || site == "same-site" }

func knownHost(hostport string, names []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		return false
	}
	if net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return n == "*" || strings.EqualFold(n, host) })
}
