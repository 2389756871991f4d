package server

import (
	"io"
	"net/http"
	"testing"
)

// The dashboard has its own paths and its own rules for web pages. The API behind
// it keeps refusing them.
func TestDashboardIsMountedBesideTheAPI(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page "+r.URL.Path)
	})
	with, without := newMemoryRig(t, Options{Dashboard: page}), newMemoryRig(t, Options{})
	own := map[string]string{"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
	for _, c := range []struct {
		path   string
		status int
		body   string // of the page; "" for an answer of the API
	}{
		{"/dashboard/", 200, "page /"},
		{"/dashboard/app.js", 200, "page /app.js"},
		{"/dashboard/s/abc/", 200, "page /s/abc/"},
		{"/dashboard/s/abc//", 403, ""},
		{"/dashboard//", 403, ""},
		{"/dashboard/api/stream", 200, "page /api/stream"},
		{"/dashboard/../v1/entities", 403, ""},
		{"/dashboard//app.js", 403, ""},
		{"/dashboards", 403, ""},
		{"/v1/entities", 403, ""},
		{"/", 403, ""},
	} {
		got := with.send(request{method: http.MethodGet, path: c.path, header: own})
		if got.Code != c.status || c.body != "" && got.Body.String() != c.body {
			t.Errorf("%s: status %d, %s; want %d %s", c.path, got.Code, got.Body, c.status, c.body)
		}
		if got := without.send(
			request{method: http.MethodGet, path: c.path},
		); got.Code != 404 && c.path != "/v1/entities" {
			t.Errorf("%s without a dashboard: status %d", c.path, got.Code)
		}
	}
	if got := with.send(request{method: http.MethodGet, path: "/dashboard//app.js"}); got.Code != 404 {
		t.Errorf("a path that is not plain: status %d, %s", got.Code, got.Body)
	}
	if got := with.send(request{
		method: http.MethodGet, path: "/dashboard", header: map[string]string{"Host": "evil.example"},
	}); got.Code != 308 || got.Header().Get("Location") != "dashboard/" {
		t.Errorf("without its slash: status %d, Location %q", got.Code, got.Header().Get("Location"))
	}
}

// The dashboard takes no place of a call.
func TestDashboardLeavesThePlacesOfCalls(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := newMemoryRig(t, Options{MaxRequests: 1, Dashboard: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	})})
	done := make(chan bool)
	go func() {
		defer close(done)
		s.send(request{method: http.MethodGet, path: "/dashboard/api/stream"})
	}()
	<-entered
	s.want(200, request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	close(leave)
	<-done
}
