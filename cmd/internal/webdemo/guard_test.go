package webdemo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// Programs and the demo's own pages may use it, other pages may not.
func TestPagesOfOthersAreRejected(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"program", "POST", "/api/traffic", nil, 200},
		{
			"own page", "POST", "/api/traffic",
			[]string{"Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-origin"},
			200,
		},
		{
			"own page by name", "POST", "/api/traffic",
			[]string{"Host", "localhost:8080", "Origin", "http://localhost:8080"},
			200,
		},
		{"other page", "POST", "/api/traffic", []string{"Origin", "https://evil.example"}, 403},
		{"other port", "POST", "/api/traffic", []string{"Origin", "http://127.0.0.1:9090"}, 403},
		{"no origin", "POST", "/api/traffic", []string{"Origin", "null"}, 403},
		{
			"own origin from elsewhere", "POST", "/api/traffic",
			[]string{"Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "cross-site"},
			403,
		},
		{"another site", "GET", "/api/entities", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"rebound name", "GET", "/api/entities", []string{"Host", "evil.example:8080"}, 421},
		{
			"rebound name of a page", "POST", "/api/traffic",
			[]string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"},
			421,
		},
		{
			"link to a page", "GET", "/",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
			200,
		},
		{
			"frame of a page", "GET", "/",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
			403,
		},
		{
			"form of a page", "POST", "/api/traffic",
			[]string{"Origin", "https://evil.example", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
			403,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newDemo(t, nil).do(c.method, c.path, `{"paused":true}`, c.header...)
			if w.Code != c.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			h := w.Header()
			if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("header %v", h)
			}
		})
	}
}

// Pages load nothing of other hosts, and no script.
func TestPagesNeedNoNetwork(t *testing.T) {
	d := newDemo(t, nil)
	address := regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*"?([^">)]*)`)
	for _, path := range []string{"/", "/docs", "/style.css"} {
		body := d.do("GET", path, "").Body.String()
		for _, m := range address.FindAllStringSubmatch(body, -1) {
			if strings.Contains(m[1], "//") {
				t.Errorf("%s names %s", path, m[1])
			}
		}
		if strings.Contains(body, "<script") || strings.Contains(body, "style=") {
			t.Errorf("%s has a script or a style", path)
		}
	}
}

// The document has every route, all its references lead somewhere, and the page
// shows all of it.
func TestDocumentIsComplete(t *testing.T) {
	d := newDemo(t, nil)
	text, page := d.do("GET", "/openapi.json", "").Body.String(), d.do("GET", "/docs", "").Body.String()
	var document struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	for _, rt := range d.routes {
		if document.Paths[rt.Path][strings.ToLower(rt.Method)] == nil {
			t.Errorf("%s %s is not described", rt.Method, rt.Path)
		}
		if !strings.Contains(page, "<b>"+rt.Method+"</b> "+rt.Path+"<") {
			t.Errorf("the page does not show %s %s", rt.Method, rt.Path)
		}
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if document.Components.Schemas[m[1]] == nil {
			t.Errorf("there is no schema %s", m[1])
		}
	}
	for name := range document.Components.Schemas {
		if !strings.Contains(page, `id="`+name+`"`) {
			t.Errorf("the page does not show %s", name)
		}
	}
}

// The body of a refusal has the fields that the document describes.
func TestDocumentDescribesRefusals(t *testing.T) {
	refusal := &limiter.ExceededError{Decision: limiter.Decision{Statuses: []limiter.Status{{
		Limit: limiter.PerMinute("rpm", 1), Exceeded: true, RetryAfter: time.Second,
	}}}}
	text, err := json.Marshal(refusal)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := web.Decode[refusalJSON](rules, text); err != nil {
		t.Errorf("%v in %s", err, text)
	}
}

// A store that fails has a status and no text of its error, and the stream of the
// state goes on.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		d := newDemo(t, repotest.NewFaulty(memory.New(nil), func(string) repotest.Fault {
			if failing.Load() {
				return repotest.Before
			}
			return repotest.None
		}))
		ctx, leave := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer leave()
		stream := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.ServeHTTP(stream, request(ctx, "GET", "/api/dashboard/stream", ""))
		}()
		time.Sleep(1500 * time.Millisecond)
		failing.Store(true)
		for path, call := range map[string]func() *httptest.ResponseRecorder{
			chatPath:        func() *httptest.ResponseRecorder { return d.chat("key-alice", hello) },
			"/health":       func() *httptest.ResponseRecorder { return d.do("GET", "/health", "") },
			"/api/entities": func() *httptest.ResponseRecorder { return d.do("GET", "/api/entities", "") },
		} {
			w := call()
			if w.Code < 500 || strings.Contains(w.Body.String(), "injected") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		time.Sleep(time.Second)
		failing.Store(false)
		<-ended
		events := strings.Split(strings.TrimSuffix(stream.Body.String(), "\n\n"), "\n\n")
		if len(events) != 4 || !strings.HasPrefix(events[2], `data: {"error":`) ||
			!strings.HasPrefix(events[3], `data: {"entities":[{`) {
			t.Errorf("events %q", events)
		}
	})
}

// Close ends streams, and there is room for some only.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		ended := make(chan struct{}, maxStreams)
		for range maxStreams {
			go func() {
				d.do("GET", "/api/dashboard/stream", "")
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		if w := d.do("GET", "/api/dashboard/stream", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one more stream: %d", w.Code)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for range maxStreams {
			<-ended
		}
		if d.streams.Holders() != 0 {
			t.Error("streams are open")
		}
	})
}

// The traffic moves the bars, some of it is refused, and a pause stops it.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemo(t, nil)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.RunTraffic(ctx)
		}()
		time.Sleep(5 * time.Minute)
		before := d.traffic.read()
		if before.Admitted < 100 || before.Refused < 10 || before.Calls < before.Admitted+before.Refused {
			t.Errorf("after five minutes: %+v", before)
		}
		d.do("POST", "/api/traffic", `{"paused":true}`)
		time.Sleep(time.Minute)
		paused := d.traffic.read()
		if before.Paused = true; paused.Calls != before.Calls {
			t.Errorf("%+v, and after a pause %+v", before, paused)
		}
		for _, e := range parse[stateJSON](t, d.do("GET", "/api/dashboard/entities", "")).Entities {
			for _, l := range e.Limits {
				if (l.Utilization != 0) != (e.ID == "proj-demo" && l.Name == llm.Spend) { // a budget does not refill
					t.Errorf("%s %s is %v %% used after a minute of rest", e.ID, l.Name, l.Utilization)
				}
			}
		}
		d.do("POST", "/api/traffic", `{"paused":false}`)
		time.Sleep(time.Minute)
		end()
		<-ended
		if after := d.traffic.read(); after.Calls == paused.Calls {
			t.Error("the traffic did not resume")
		}
	})
}
