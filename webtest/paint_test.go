package webtest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// TestFirstPaint holds the answers of the API back. The frame of the page is there
// without them.
func TestFirstPaint(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-1", "gpt-4", requestsOnly(10))
	p := serve(t, s)
	target, err := url.Parse(p.origin())
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/api/") {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	b := newTab(t)
	b.allow(strings.TrimPrefix(slow.URL, "http://"))
	b.open(slow.URL + "/dashboard/")
	b.await("the frame",
		`() => all("header nav a").length >= 4 && pill() === "Connecting…" && Boolean(performance.getEntriesByName("first-contentful-paint")[0])`)
	b.keep("first-paint")
	close(release)
	b.awaitLive()
	b.await("the row", `() => limit("key-1", "gpt-4", "rpm")?.amount === "90 / 100"`)
}
