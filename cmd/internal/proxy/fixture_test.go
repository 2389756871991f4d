package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

const (
	chatPath = "/v1/chat/completions"
	aliceKey = "sk-alice-0123456789"
	// capacity of the limit tpm in the fixture.
	capacity = 100_000
)

// noon never moves, so that no refill disturbs a balance.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rig is a proxy in front of a fake upstream, on real connections.
type rig struct {
	t        *testing.T
	lim      *limiter.RateLimiter
	proxy    *Proxy
	server   *httptest.Server
	upstream *httptest.Server
	log      *safeBuffer
	mu       sync.Mutex
	errs     []error
	seen     []*http.Request // at the upstream, with their bodies read
	bodies   []string
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newRig starts a proxy with limits for the models m and other. The upstream runs
// answer after it has noted the request.
func newRig(t *testing.T, answer http.HandlerFunc, change func(*Options)) *rig {
	t.Helper()
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, lim, answer, change)
}

func newRigOn(t *testing.T, lim *limiter.RateLimiter, answer http.HandlerFunc, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, lim: lim, log: &safeBuffer{}}
	for _, resource := range []string{"m", "other"} {
		if err := lim.SetResourceDefaults(
			context.Background(), resource, limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", capacity),
		); err != nil {
			t.Fatal(err)
		}
	}
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.seen, r.bodies = append(r.seen, req), append(r.bodies, string(body))
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.upstream.Close)
	r.start(change)
	return r
}

func (r *rig) start(change func(*Options)) {
	r.t.Helper()
	at, _ := url.Parse(r.upstream.URL)
	opts := Options{
		Upstream: at, Paths: []string{"*"}, Log: slog.New(slog.NewJSONHandler(r.log, nil)), Now: func() time.Time {
			return noon
		},
		OnError: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, err)
		},
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if r.proxy, err = New(r.lim, &opts); err != nil {
		r.t.Fatal(err)
	}
	r.server = httptest.NewServer(r.proxy)
	r.t.Cleanup(r.server.Close)
}

// reply is an answer that was read to its end.
type reply struct {
	StatusCode int
	Header     http.Header
	Close      bool // the proxy closes the connection
}

func newReply(resp *http.Response) reply { return reply{resp.StatusCode, resp.Header, resp.Close} }

// post sends a request with Alice's key and returns the answer.
func (r *rig) post(path, body string, headers ...string) (reply, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.server.URL+path,
		strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

func (r *rig) do(req *http.Request) (reply, string) {
	r.t.Helper()
	resp, err := r.server.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return newReply(resp), string(body)
}

// used returns how many requests and tokens an entity has used of a resource,
// after every call under way has ended.
func (r *rig) used(entity, resource string) (requests, tokens int64) {
	r.t.Helper()
	r.proxy.calls.Wait()
	left, err := r.lim.Available(context.Background(), entity, resource)
	if err != nil {
		r.t.Fatal(err)
	}
	return 1000 - left.Get("rpm"), capacity - left.Get("tpm")
}

func (r *rig) wantUsed(resource string, requests, tokens int64) {
	r.t.Helper()
	if gotRequests, gotTokens := r.used(HashKey(aliceKey), resource); gotRequests != requests || gotTokens != tokens {
		r.t.Errorf("charged %d requests and %d tokens of %s, want %d and %d", gotRequests, gotTokens, resource,
			requests, tokens)
	}
}

func (r *rig) wantStatus(resp reply, want int) {
	r.t.Helper()
	if resp.StatusCode != want {
		r.t.Errorf("status %d, want %d", resp.StatusCode, want)
	}
}

// calls returns the number of requests that reached the upstream.
func (r *rig) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// lastBody returns the body of the last request at the upstream.
func (r *rig) lastBody() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[len(r.bodies)-1]
}

func (r *rig) lastHeader() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[len(r.seen)-1].Header
}

// lastPath returns the path of the last call of the upstream.
func (r *rig) lastPath() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[len(r.seen)-1].URL.Path
}

// answerJSON returns an upstream with one answer.
func answerJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// answerStream returns an upstream that flushes each event.
func answerStream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

const (
	delta     = `data: {"choices":[{"index":0,"delta":{"content":"hello world!"}}],"usage":null}` + "\n\n"
	lastUsage = `data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}` + "\n\n"
	done      = "data: [DONE]\n\n"
	plainCall = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	chatCall  = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	plainChat = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}`
)

// inUse returns what all clients hold of a pool.
func inUse(p *pool) int64 { return p.Held(p.all) }
