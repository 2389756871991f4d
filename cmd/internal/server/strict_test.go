package server

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// A body that is not exactly one request gets 400, and charges nothing.
func TestStrictBodies(t *testing.T) {
	r := newMemoryRig(t, Options{})
	good := acquireJSON("key", `{"rpm":1}`)
	for name, body := range map[string]string{
		"nothing":          ``,
		"null":             `null`,
		"array":            `[` + good + `]`,
		"string":           `"x"`,
		"cut off":          good[:len(good)-1],
		"twice":            good + good,
		"trailing":         good + ` x`,
		"unknown field":    `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"x":1}`,
		"case":             `{"Entity_ID":"key","resource":"gpt-4","consume":{"rpm":1}}`,
		"field twice":      `{"entity_id":"other","entity_id":"key","resource":"gpt-4","consume":{"rpm":1}}`,
		"limit twice":      acquireJSON("key", `{"rpm":1,"rpm":1}`),
		"escaped twice":    `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1,"\u0072pm":1}}`,
		"fraction":         acquireJSON("key", `{"rpm":1.5}`),
		"exponent":         acquireJSON("key", `{"rpm":1e-3}`),
		"text":             acquireJSON("key", `{"rpm":"1"}`),
		"negative":         acquireJSON("key", `{"rpm":-1}`),
		"overflow":         acquireJSON("key", `{"rpm":9223372036854775808}`),
		"beyond":           acquireJSON("key", `{"rpm":9223372036854775807}`),
		"no amounts":       acquireJSON("key", `{}`),
		"null amounts":     acquireJSON("key", `null`),
		"null amount":      acquireJSON("key", `{"rpm":null}`),
		"null limits":      `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":null}`,
		"null commit":      `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"commit":null}`,
		"key of a limit":   `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1,"x":1}]}`,
		"case in a limit":  `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":[{"Name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1}]}`,
		"unknown limit":    acquireJSON("key", `{"nope":1}`),
		"entity":           acquireJSON("a b", `{"rpm":1}`),
		"mode":             `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"on_unavailable":"maybe"}`,
		"incomplete limit": `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":[{"name":"rpm"}]}`,
		"empty limits":     `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"limits":[]}`,
		"deep": `{"entity_id":"key","resource":"gpt-4","consume":` + strings.Repeat("[", 30000) +
			strings.Repeat("]", 30000) + `}`,
		"many": acquireJSON("key", `{`+strings.TrimSuffix(strings.Repeat(`"a":1,`, 200), ",")+`}`),
	} {
		w := r.send(request{path: "/v1/acquire", body: body})
		want := 400
		switch name {
		case "unknown limit":
			want = 404
		case "beyond":
			want = w.Code // above the capacity, or not a valid amount
		}
		if w.Code != want || w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), `"detail"`) ||
			strings.Contains(w.Body.String(), "server.") || strings.Contains(w.Body.String(), "Release") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if r.left("key") != "rpm=10 tpm=1000" || r.Leases() != 0 {
		t.Errorf("%s is left, %d leases", r.left("key"), r.Leases())
	}
}

// A call about a lease that is not exactly one request gets 400 and changes
// nothing.
func TestStrictSettlements(t *testing.T) {
	r := newMemoryRig(t, Options{})
	id := r.acquire("", "key", `{"tpm":100}`)
	for path, bodies := range map[string][]string{
		"commit":     {`{"used":{"tpm":null}}`, `{"used":null}`, `{"used":{"tpm":1},"x":1}`},
		"adjust":     {`{"adjust":{"tpm":null}}`},
		"consume":    {`{"consume":{"tpm":null}}`, `{"consume":{"tpm":-1}}`},
		"rollback":   {`{"x":1}`},
		"commit?x=1": {`{}`},
	} {
		for _, body := range bodies {
			if w := r.send(request{
				path: "/v1/leases/" + id + "/" + path, body: body,
			}); w.Code != 400 || strings.Contains(w.Body.String(), "Release") {
				t.Errorf("%s %s: %d %s", path, body, w.Code, w.Body)
			}
		}
	}
	if r.left("key") != "rpm=10 tpm=900" || r.Leases() != 1 {
		t.Errorf("%s is left, %d leases", r.left("key"), r.Leases())
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// A body that is announced as too long is refused before the client sends it.
func TestLongBodyIsNotAskedFor(t *testing.T) {
	r := newMemoryRig(t, Options{MaxBody: 200})
	q := request{path: "/v1/acquire", body: "{}"}.http(t)
	q.Body, q.ContentLength = io.NopCloser(unread{t}), 1<<40
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	if w.Code != 413 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHeadersOfRequests(t *testing.T) {
	r := newMemoryRig(t, Options{MaxBody: 200})
	good := acquireJSON("key", `{"rpm":1}`)
	for name, test := range map[string]struct {
		q    request
		want int
	}{
		"form":        {request{header: map[string]string{"Content-Type": "text/plain"}, body: good}, 415},
		"no type":     {request{header: map[string]string{"Content-Type": ""}, body: good}, 415},
		"broken type": {request{header: map[string]string{"Content-Type": "application/json; ="}, body: good}, 415},
		"compressed":  {request{header: map[string]string{"Content-Encoding": "gzip"}, body: good}, 415},
		"charset": {
			request{header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, body: good},
			200,
		},
		"origin":        {request{header: map[string]string{"Origin": "https://evil.example"}, body: good}, 403},
		"huge":          {request{body: good + strings.Repeat(" ", 200)}, 413},
		"wrong method":  {request{method: "GET"}, 405},
		"unknown query": {request{method: "GET", path: "/v1/entities?limits=3"}, 400},
		"query of POST": {request{path: "/v1/acquire?commit=true", body: good}, 400},
		"query twice":   {request{method: "GET", path: "/v1/entities?limit=3&limit=4"}, 400},
		"limit":         {request{method: "GET", path: "/v1/entities?limit=0"}, 400},
		"big limit":     {request{method: "GET", path: "/v1/entities?limit=1001"}, 400},
		"broken query":  {request{method: "GET", path: "/v1/entities?limit=%zz"}, 400},
		"bad window":    {request{method: "GET", path: "/v1/usage?window=weekly"}, 400},
		"bad time":      {request{method: "GET", path: "/v1/usage?start=soon"}, 400},
		"times":         {request{method: "GET", path: "/v1/usage?start=1h&end=2h"}, 200},
		"missing":       {request{method: "GET", path: "/v1/resources/gpt-4/capacity"}, 400},
		"bad entity":    {request{method: "GET", path: "/v1/entities/a%20b/status"}, 400},
		"bad event":     {request{method: "GET", path: "/v1/audit?start_event_id=x"}, 400},
		"no record":     {request{method: "GET", path: "/v1/entities/none"}, 404},
		"other host":    {request{header: map[string]string{"Host": "evil.example"}, body: good}, 421},
		"unclean path":  {request{method: "GET", path: "//v1/entities"}, 404},
		"dots":          {request{method: "GET", path: "/v1/../v1/entities"}, 404},
		"no route":      {request{method: "GET", path: "/v2/entities"}, 404},
	} {
		if test.q.path == "" {
			test.q.path = "/v1/acquire"
		}
		w := r.send(test.q)
		if w.Code != test.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, test.want, w.Body)
		}
		if w.Code >= 300 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: the content type is %s", name, w.Header().Get("Content-Type"))
		}
	}
}
