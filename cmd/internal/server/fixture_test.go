package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// rig is a server on a store with a clock that stands still.
type rig struct {
	*Server
	t    *testing.T
	repo limiter.Repository
	lim  *limiter.RateLimiter
}

// newRig returns a server whose resource gpt-4 has 10 rpm and 1,000 tpm.
func newRig(t *testing.T, repo limiter.Repository, opts Options) *rig {
	t.Helper()
	if opts.Now == nil {
		now := time.Now()
		opts.Now = func() time.Time { return now }
	}
	lim, err := limiter.New(repo, &limiter.Options{Now: opts.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetResourceDefaults(
		context.Background(), "gpt-4", limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000),
	); err != nil {
		t.Fatal(err)
	}
	s, err := New(repo, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{s, t, repo, lim}
}

// left returns what an entity has left of gpt-4, such as "rpm=9 tpm=500".
func (r *rig) left(entity string) string {
	r.t.Helper()
	amounts, err := r.lim.Available(context.Background(), entity, "gpt-4")
	if err != nil {
		r.t.Fatal(err)
	}
	return amounts.String()
}

// request is a call of a test. The zero values are a POST with the JSON content
// type.
type request struct {
	method, path, body, token, key string
	header                         map[string]string
	ctx                            context.Context //nolint:containedctx // a test's
}

func (q request) http(t *testing.T) *http.Request {
	t.Helper()
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.ctx == nil {
		q.ctx = context.Background()
	}
	r := httptest.NewRequestWithContext(q.ctx, q.method, "http://localhost"+q.path, strings.NewReader(q.body))
	if q.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
		if value == "" {
			r.Header.Del(name)
		}
		if name == "Host" {
			r.Host = value
		}
	}
	return r
}

// send sends a request and returns the answer.
func (r *rig) send(q request) *httptest.ResponseRecorder {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q.http(r.t))
	return w
}

// want sends a request and checks the status of its answer, which it decodes.
func (r *rig) want(status int, q request) map[string]any {
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

// acquire acquires under a token and returns the ID of the lease.
func (r *rig) acquire(token, entity, amounts string) string {
	r.t.Helper()
	answer := r.want(200, request{path: "/v1/acquire", token: token, body: acquireJSON(entity, amounts)})
	id, _ := answer["lease_id"].(string)
	if len(id) != 32 {
		r.t.Fatalf("the ID of the lease is %v", answer["lease_id"])
	}
	return id
}

func acquireJSON(entity, amounts string) string {
	return fmt.Sprintf(`{"entity_id":%q,"resource":"gpt-4","consume":%s}`, entity, amounts)
}

// tokensFile writes a file with tokens of these roles and namespaces, and returns
// its path and the tokens.
func tokensFile(t *testing.T, entries ...TokenEntry) (path string, tokens []string) {
	t.Helper()
	text := "tokens:\n"
	for i, e := range entries {
		token, hash := NewToken()
		tokens = append(tokens, token)
		text += fmt.Sprintf("  - {name: t%d, sha256: %s, role: %s, namespace: %s}\n", i, hash, e.Role, e.Namespace)
	}
	path = filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, tokens
}

// openTokens returns the tokens of a file that tokensFile wrote.
func openTokens(t *testing.T, entries ...TokenEntry) (*Tokens, []string) {
	t.Helper()
	path, tokens := tokensFile(t, entries...)
	opened, err := OpenTokens(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return opened, tokens
}

func newMemoryRig(t *testing.T, opts Options) *rig {
	t.Helper()
	return newRig(t, memory.New(nil), opts)
}
