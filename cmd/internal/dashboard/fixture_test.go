package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

const testToken = "a-token-of-a-test"

// rig is a dashboard on a store.
type rig struct {
	*Handler
	t      *testing.T
	repo   limiter.Repository
	lim    *limiter.RateLimiter
	cookie *http.Cookie // of the local session
}

// newRig returns a dashboard on memory with a session, whose resource gpt-4 has
// 10 rpm and 1,000 tpm. The clock stands still unless opts has one.
func newRig(t *testing.T, opts Options) *rig {
	t.Helper()
	if opts.Now == nil {
		now := time.Now()
		opts.Now = func() time.Time { return now }
	}
	repo := limiter.Repository(memory.New(nil))
	if opts.Open == nil {
		opts.Open = func(ctx context.Context, name string) (limiter.Repository, error) {
			return repo.Namespace(ctx, name)
		}
	}
	if opts.Authenticate == nil && opts.Token == "" {
		opts.Token, opts.Principal = testToken, "alice"
	}
	h, err := New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	lim, err := limiter.New(repo, &limiter.Options{Now: opts.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Handler: h, t: t, repo: repo, lim: lim}
	r.ok(lim.SetResourceDefaults(context.Background(), "gpt-4", limiter.PerMinute("rpm", 10),
		limiter.PerMinute("tpm", 1000)))
	if opts.Token != "" {
		r.cookie = r.login(opts.Token)
	}
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// login opens a session.
func (r *rig) login(token string) *http.Cookie {
	r.t.Helper()
	w := r.send(request{method: http.MethodPost, path: "/api/session", body: `{"token":"` + token + `"}`})
	if w.Code != http.StatusOK {
		r.t.Fatalf("session: %d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()[0]
}

// use charges a bucket.
func (r *rig) use(entity, resource, limit string, n int64) {
	r.t.Helper()
	lease, err := r.lim.Acquire(context.Background(), limiter.Request{
		Entity: entity, Resource: resource, Consume: limiter.Tokens(limit, n),
	})
	r.ok(err)
	r.ok(lease.Commit(context.Background()))
}

// request is a request of a test: a GET, or a POST of the page if it has a body. Its
// path is below the path of the cookie.
type request struct {
	method, path, body string
	cookie             *http.Cookie
	header             map[string]string // "" removes a field
}

func (q request) http() *http.Request {
	if q.method == "" {
		q.method = http.MethodGet
		if q.body != "" {
			q.method = http.MethodPost
		}
	}
	if q.cookie != nil {
		q.path = strings.TrimSuffix(q.cookie.Path, "/") + q.path
	}
	r := httptest.NewRequestWithContext(context.Background(), q.method, "http://127.0.0.1:9236"+q.path,
		strings.NewReader(q.body))
	r.RequestURI = q.path
	if q.method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "http://127.0.0.1:9236")
	}
	if q.cookie != nil {
		r.AddCookie(q.cookie)
	}
	for name, value := range q.header {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (r *rig) send(q request) *httptest.ResponseRecorder {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q.http())
	return w
}

// want sends a request of the local session, checks the status and decodes the
// answer.
func (r *rig) want(status int, path, body string) map[string]any {
	r.t.Helper()
	return r.wantOf(status, request{path: path, body: body, cookie: r.cookie})
}

func (r *rig) wantOf(status int, q request) map[string]any {
	r.t.Helper()
	w := r.send(q)
	if w.Code != status {
		r.t.Fatalf("%s %s: status %d, want %d: %s", q.path, q.body, w.Code, status, w.Body)
	}
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		r.t.Fatalf("%s: %v in %s", q.path, err, w.Body)
	}
	return answer
}

// get decodes the answer to a GET of the local session.
func get[T any](r *rig, path string) T {
	r.t.Helper()
	w := r.send(request{path: path, cookie: r.cookie})
	if w.Code != http.StatusOK {
		r.t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
	var answer T
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		r.t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	return answer
}
