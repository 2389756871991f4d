package rls_test

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// wantCode checks the status of an answer.
func wantCode(t *testing.T, got seen, code int) {
	t.Helper()
	if got.code != code {
		t.Errorf("status %d, want %d: %v %s", got.code, code, got.header, got.body)
	}
}

func TestEnvoyAdmitsExactlyTheLimit(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	var ok, refused atomic.Int64
	var clients sync.WaitGroup
	for range 25 {
		clients.Go(func() {
			switch got := r.get(t, "limited", "X-User", "alice"); got.code {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("status %d", got.code)
			}
		})
	}
	clients.Wait()
	if ok.Load() != 10 || refused.Load() != 15 || r.reached.Load() != 10 {
		t.Errorf("%d admitted, %d refused, %d reached the server; want 10, 15, 10", ok.Load(), refused.Load(),
			r.reached.Load())
	}
	w.left("alice", "api", "rpm", 0)
	wantCode(t, r.get(t, "limited", "X-User", "bob"), http.StatusOK)
	wantCode(t, r.get(t, "limited"), http.StatusOK) // no descriptor, no limit
}

func TestEnvoyPassesHeadersAndBodyOn(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	admitted := r.get(t, "limited", "X-User", "alice")
	wantCode(t, admitted, http.StatusOK)
	for name, want := range map[string]string{
		"RateLimit": `"rpm";r=9;t=6`, "RateLimit-Policy": `"rpm";q=10;w=60`, "Retry-After": "",
		"X-RateLimit-Limit": `10, 10;w=60;name="rpm"`, "X-RateLimit-Remaining": "9",
	} {
		if got := admitted.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	refused := r.get(t, "limited", "X-Spends", "alice", "X-Cost", "10")
	wantCode(t, refused, http.StatusTooManyRequests)
	if h := refused.header; h.Get("Retry-After") != "6" || h.Get("Content-Type") != "application/problem+json" ||
		len(h.Values("Content-Type")) != 1 {
		t.Errorf("headers %v", h)
	}
	if !strings.Contains(refused.body, `"violated-policies":["rpm"]`) {
		t.Errorf("body %s", refused.body)
	}
}

// Envoy honours hits_addend in the rate_limits of the filter. It ignores the one
// of a route, as docs/envoy.md says.
func TestEnvoySendsHits(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	wantCode(t, r.get(t, "limited", "X-Spends", "alice", "X-Cost", "4"), http.StatusOK)
	w.left("alice", "api", "rpm", 6)
	wantCode(t, r.get(t, "limited", "X-Spends", "alice", "X-Cost", "7"), http.StatusTooManyRequests)
	w.left("alice", "api", "rpm", 6)
	wantCode(t, r.get(t, "limited", "X-Spends", "alice", "X-Cost", "6"), http.StatusOK)
	w.left("alice", "api", "rpm", 0)
	wantCode(t, r.get(t, "route", "X-Spends", "bob"), http.StatusOK)
	w.left("bob", "api", "rpm", 9)
}

func TestEnvoySendsSeveralDescriptors(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	wantCode(t, r.get(t, "limited", "X-Spends", "bob", "X-Cost", "10"), http.StatusOK)
	wantCode(t, r.get(t, "limited", "X-User", "alice", "X-Second", "bob"), http.StatusTooManyRequests)
	w.left("alice", "api", "rpm", 10)
	wantCode(t, r.get(t, "limited", "X-User", "alice", "X-Second", "carol"), http.StatusOK)
	w.left("alice", "api", "rpm", 9)
	w.left("carol", "api", "rpm", 9)
}

// A stream is checked when it begins and charged when it is done, as debt. The
// next one is refused until the debt is repaid or given back.
func TestEnvoySettlesWhenAStreamIsDone(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	wantCode(t, r.get(t, "limited", "X-Streams", "alice", "X-Tokens", "2500"), http.StatusOK)
	r.await(t, 2) // the check, and the charge after the answer
	w.left("alice", "llm", "tpm", -1500)
	wantCode(t, r.get(t, "limited", "X-Streams", "alice", "X-Tokens", "1"), http.StatusTooManyRequests)
	r.await(t, 1) // a refused stream has no answer of the server to count
	w.left("alice", "llm", "tpm", -1500)
	wantCode(t, r.get(t, "limited", "X-Returns", "alice", "X-Tokens", "1600"), http.StatusOK)
	r.await(t, 1)
	w.left("alice", "llm", "tpm", 100)
	wantCode(t, r.get(t, "limited", "X-Streams", "alice", "X-Tokens", "100"), http.StatusOK)
	r.await(t, 2)
	w.left("alice", "llm", "tpm", 0)
}

// TestEnvoyWithoutTheService follows a service that starts late and goes away
// again.
func TestEnvoyWithoutTheService(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	down := func() {
		t.Helper()
		before := r.reached.Load()
		wantCode(t, r.get(t, "allow", "X-User", "alice"), http.StatusOK)
		wantCode(t, r.get(t, "deny", "X-User", "alice"), http.StatusInternalServerError)
		if n := r.reached.Load() - before; n != 1 {
			t.Errorf("%d requests reached the server, want 1", n)
		}
	}
	down()
	w.left("alice", "api", "rpm", 10)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", r.late)
	check(t, err)
	server := r.serve(listener)
	for _, mode := range []string{"allow", "deny"} {
		user := "user-of-" + mode
		for range 10 {
			wantCode(t, r.get(t, mode, "X-User", user), http.StatusOK)
		}
		wantCode(t, r.get(t, mode, "X-User", user), http.StatusTooManyRequests)
	}
	server.Stop()
	down()
	w.left("alice", "api", "rpm", 10)
}

// TestEnvoyFaults lists what clients of Envoy see and what stays charged when the
// store fails behind the service.
func TestEnvoyFaults(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault repotest.Fault // of each charge
		left  int64          // of 10, after one request in each mode
	}{
		{"down", repotest.Before, 10},
		{"failing after the write", repotest.After, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, rules)
			r := front(t, w)
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", r.late)
			check(t, err)
			server := r.serve(listener)
			defer server.Stop()
			w.fail(func(method string) repotest.Fault {
				if method == "Consume" {
					return test.fault
				}
				return repotest.None
			})
			wantCode(t, r.get(t, "allow", "X-User", "alice"), http.StatusOK)
			wantCode(t, r.get(t, "deny", "X-User", "alice"), http.StatusInternalServerError)
			w.fail(nil)
			w.left("alice", "api", "rpm", test.left)
			awaitNoCalls(t)
		})
	}
}

// A store that is slower than Envoy waits loses its call: Envoy cancels it, and
// nothing is charged or left running.
func TestEnvoyDoesNotWaitForASlowStore(t *testing.T) {
	w := start(t, rules)
	r := front(t, w)
	lim, err := limiter.New(stuck{w.repo}, nil)
	check(t, err)
	parsed, err := rls.ParseRules([]byte(rules))
	check(t, err)
	r.service.Store(rls.New(func(context.Context) (*limiter.RateLimiter, error) { return lim, nil }, parsed, nil))
	wantCode(t, r.get(t, "impatient", "X-User", "alice"), http.StatusInternalServerError)
	r.await(t, 1)
	w.left("alice", "api", "rpm", 10)
	awaitNoCalls(t)
}

// stuck is a store whose charges last until their context ends.
type stuck struct{ limiter.Repository }

func (s stuck) Consume(ctx context.Context, _ time.Time, _ limiter.Charge) (limiter.Outcome, error) {
	<-ctx.Done()
	return limiter.Outcome{}, ctx.Err()
}

// awaitNoCalls checks that no goroutine of the service is left.
func awaitNoCalls(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "cmd/internal/rls.(*Service)") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a call of the service is still running:\n%s", stacks)
		}
		runtime.Gosched()
	}
}
