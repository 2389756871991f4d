package webdemo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// demo is a handler on a store, and calls it without a network.
type demo struct {
	*testing.T
	*Handler
	lim *limiter.RateLimiter
}

// newDemo returns a demo on repo, or on a new store if repo is nil.
func newDemo(t *testing.T, repo limiter.Repository) *demo {
	t.Helper()
	if repo == nil {
		repo = memory.New(nil)
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Seed(t.Context(), lim); err != nil {
		t.Fatal(err)
	}
	h, err := New(lim, &Options{Seed: 7, OnError: func(err error) { t.Log("OnError:", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &demo{t, h, lim}
}

// request returns a request with pairs of header fields.
func request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	return r
}

// do makes a call and returns the answer.
func (d *demo) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, request(d.Context(), method, path, body, header...))
	return w
}

const hello = `{"model":"gpt-4","messages":[{"role":"user","content":"Hello"}],"max_tokens":50}`

// chat makes a call of the gateway.
func (d *demo) chat(key, body string) *httptest.ResponseRecorder {
	return d.do(http.MethodPost, chatPath, body, "X-API-Key", key)
}

// parse parses the JSON of an answer.
func parse[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

// used returns what an entity used of a model this hour.
func (d *demo) used(entity, model string) map[string]int64 {
	d.Helper()
	sums := map[string]int64{}
	for s, err := range d.lim.Usage(d.Context(), limiter.UsageQuery{
		Entity: entity, Resource: model, Window: limiter.Hourly,
	}) {
		if err != nil {
			d.Fatal(err)
		}
		for name, n := range s.Counters {
			sums[name] += n
		}
	}
	return sums
}
