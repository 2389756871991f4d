package docs_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// gateway returns the program under test, a handler with limits.
func gateway(lim *limiter.RateLimiter) http.Handler {
	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
		return limiter.Request{
			Entity: r.Header.Get("X-Api-Key"), Resource: "api", Consume: limiter.Tokens("rpm", 1),
		}, nil
	}, nil)
	return limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
}

// call sends a request and returns the status.
func call(t *testing.T, handler http.Handler) int {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	r.Header.Set("X-Api-Key", "key-abc")
	handler.ServeHTTP(w, r)
	return w.Code
}

//docs:memory
func TestThirdRequestIsRefused(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{
		Now:    func() time.Time { return now },
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := gateway(lim)

	for i, want := range []int{200, 200, 429} {
		if got := call(t, handler); got != want {
			t.Errorf("request %d: status %d, want %d", i+1, got, want)
		}
	}
	now = now.Add(30 * time.Second) // one of two is back
	if got := call(t, handler); got != 200 {
		t.Errorf("after 30 s: status %d, want 200", got)
	}
}

//docs:end

//docs:faulty
func TestOutageIs503(t *testing.T) {
	down := false
	repo := repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
		if down && method == "Consume" {
			return repotest.Before
		}
		return repotest.None
	})
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)}})
	if err != nil {
		t.Fatal(err)
	}
	handler := gateway(lim)

	for _, want := range []int{200, 503} {
		if got := call(t, handler); got != want {
			t.Errorf("down %t: status %d, want %d", down, got, want)
		}
		down = true
	}
}

//docs:end

//docs:synctest
func TestWaitTakesTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 6)}})
		if err != nil {
			t.Fatal(err)
		}
		req := limiter.Request{Entity: "key-abc", Resource: "api", Consume: limiter.Tokens("rpm", 6)}
		if _, err := lim.Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		req.Consume = limiter.Tokens("rpm", 1)
		if _, err := lim.Wait(t.Context(), req); err != nil { // no real time passes
			t.Fatal(err)
		}
		if waited := time.Since(start).Round(time.Second); waited != 10*time.Second {
			t.Errorf("waited %v, want 10s", waited)
		}
	})
}

//docs:end

//docs:lost
func TestLostAnswerIsNotAdmitted(t *testing.T) {
	repo := repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
		if method == "Consume" {
			return repotest.After // stored, but the caller never learns it
		}
		return repotest.None
	})
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lim.Acquire(context.Background(), limiter.Request{
		Entity: "key-abc", Resource: "api", Consume: limiter.Tokens("rpm", 1),
	})
	if !errors.Is(err, repotest.ErrInjected) {
		t.Errorf("error %v, want an outage", err)
	}
}

//docs:end
