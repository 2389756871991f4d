package server

import (
	"net/http"
	"path"
	"strings"
)

// DashboardPath is the path of the dashboard, without the slash at its end.
const DashboardPath = "/dashboard"

// withDashboard returns a handler that passes the paths of the dashboard to page
// and all others to api. The page checks hosts, origins and sessions itself, since
// a browser sends what the API refuses. It also bounds its own requests: they may
// wait for the read budget of the store, and take no place of a call.
func withDashboard(api, page http.Handler) http.Handler {
	page = http.StripPrefix(DashboardPath, page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch at := r.URL.Path; {
		case at == DashboardPath:
			// A relative target holds for every name of the host.
			w.Header().Set("Location", DashboardPath[1:]+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
		// A path that is not clean goes to the API, which refuses it.
		case strings.HasPrefix(at, DashboardPath+"/") && strings.TrimSuffix(at, "/") == path.Clean(at):
			page.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
