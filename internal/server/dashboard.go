package server

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
)

// DashboardPath is the path of the dashboard, without the slash at its end.
const DashboardPath = "/dashboard"

// Bounds of the dashboard. Its requests have places of their own: they may wait
// for the read budget of the store, and must take no place of a call.
const (
	dashboardRequests = 256
	dashboardBody     = 1 << 20 // bytes; a manifest is the longest
	dashboardStream   = DashboardPath + "/api/stream"
)

// withDashboard returns a handler that passes the paths of the dashboard to page
// and all others to api. The page checks hosts, origins and sessions itself, since
// a browser sends what the API refuses.
func (s *Server) withDashboard(api, page http.Handler) http.Handler {
	page = s.dashboardPlaces(http.StripPrefix(DashboardPath, page))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch at := r.URL.Path; {
		case at == DashboardPath:
			w.Header().Set("Location", DashboardPath[1:]+"/") // relative, whatever the host is
			w.WriteHeader(http.StatusPermanentRedirect)
		case at == DashboardPath+"/", strings.HasPrefix(at, DashboardPath+"/") && at == path.Clean(at):
			page.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// dashboardPlaces bounds the requests of the dashboard that are under way, except
// streams, which it bounds itself. A request takes its place when its body has
// arrived.
func (s *Server) dashboardPlaces(page http.Handler) http.Handler {
	places := make(chan struct{}, dashboardRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == dashboardStream {
			page.ServeHTTP(w, r)
			return
		}
		body, err := readBody(w, r, dashboardBody)
		if err != nil {
			_ = s.fail(w.Header(), err).write(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			page.ServeHTTP(w, r)
		default:
			_ = s.fail(w.Header(), errTooMany).write(w)
		}
	})
}
