package chatload_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/chatload"
)

// server answers each call with the next of some statuses, and ends the test in the
// call after the last, whose answer comes too late.
type server struct {
	statuses []int
	end      func()

	mu     sync.Mutex
	keys   []string
	bodies []map[string]any
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == len(s.statuses) {
		s.end()
		return
	}
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	status := s.statuses[len(s.keys)]
	s.keys, s.bodies = append(s.keys, r.Header.Get("X-Api-Key")), append(s.bodies, body)
	if status == 0 { // an answer of another API
		_, _ = w.Write([]byte(`{"ok":true}`))
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`))
}

func optionsFor(t *testing.T, base string) *chatload.Options {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &chatload.Options{
		URL: u, Keys: []string{"a", "b"}, Model: "gpt-4", Workers: 1, Duration: time.Hour, MaxTokens: 9,
	}
}

func TestRunCountsCalls(t *testing.T) {
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	s := &server{statuses: []int{200, 429, 200, 500, 401, 429, 302, 0}, end: end}
	web := httptest.NewServer(http.StripPrefix("/base/v1/chat/completions", s))
	defer web.Close()
	got, err := chatload.New(optionsFor(t, web.URL+"/base/")).Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got.Elapsed <= 0 || got.PerSecond(got.Calls()) <= 0 {
		t.Errorf("elapsed %v", got.Elapsed)
	}
	got.Elapsed = 0
	want := chatload.Result{OK: 2, Refused: 2, Failed: 4, Cancelled: 1, Tokens: 14, Failures: map[string]int64{
		"status 500": 1, "status 401": 1, "status 302": 1, "the answer reports no usage": 1,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "b", "a", "b", "a", "b"}, s.keys); diff != "" {
		t.Errorf("keys: %s", diff)
	}
	if s.bodies[0]["model"] != "gpt-4" || s.bodies[0]["max_tokens"] != 9.0 {
		t.Errorf("body %v", s.bodies[0])
	}
}

// A server that does not answer ends the test, however long it should run.
func TestRunEndsWithoutAServer(t *testing.T) {
	web := httptest.NewServer(nil)
	web.Close()
	opts := optionsFor(t, web.URL)
	opts.Workers = 3
	if _, err := chatload.New(opts).Run(t.Context()); !errors.Is(err, chatload.ErrUnreachable) {
		t.Errorf("the error is %v", err)
	}
}

func TestRunEndsWithItsTime(t *testing.T) {
	s := &server{statuses: slices.Repeat([]int{200}, 1000), end: func() {}}
	web := httptest.NewServer(s)
	defer web.Close()
	opts := optionsFor(t, web.URL)
	opts.Duration, opts.Delay = time.Millisecond, time.Hour
	got, err := chatload.New(opts).Run(t.Context())
	if err != nil || got.Calls() == 0 {
		t.Errorf("%d calls, %v", got.Calls(), err)
	}
}
