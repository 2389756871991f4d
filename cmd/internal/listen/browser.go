package listen

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// HostOptions configures Hosts.
type HostOptions struct {
	// Names has host names of the server. The name "*" stands for any.
	Names []string
	// Known reports whether a host name is another one of the server; nil for none.
	Known func(host string) bool
}

// Hosts rejects requests that a web page may have sent: requests with an Origin,
// and requests for a host name that the server does not have, which a page
// reaches by rebinding its own name to the server's address. IP addresses and
// localhost always pass.
func Hosts(next http.Handler, opts *HostOptions) http.Handler {
	if opts == nil {
		opts = &HostOptions{}
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "", fromPage(r.Header.Get("Sec-Fetch-Site")):
			refuse(w, http.StatusForbidden, "requests of web pages are not allowed")
		case !opts.Serves(r.Host):
			refuse(w, http.StatusMisdirectedRequest, "this server does not serve that host name")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromPage reports whether a browser sent a request for a page of another origin.
// The origins of one site, such as two subdomains, need not trust each other.
func fromPage(site string) bool { return site == "cross-site" || site == "same-site" }

// Serves reports whether a Host field names the server. IP addresses and localhost
// always do.
func (o *HostOptions) Serves(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")

	switch {
	case host == "":
		return false
	// A page can rebind only a name of its own, never an address or localhost.
	case net.ParseIP(host) != nil, strings.EqualFold(host, "localhost"):
		return true
	case slices.ContainsFunc(o.Names, func(n string) bool { return n == "*" || strings.EqualFold(n, host) }):
		return true
	}
	return o.Known != nil && o.Known(host)
}
