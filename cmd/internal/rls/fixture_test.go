package rls_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// rules are the rules of most tests.
const rules = `
rules:
  - match: {user: "*"}
    entity: "{user}"
    resource: api
    consume: {rpm: hits}
  - match: {tokens_of: "*"}
    entity: "{tokens_of}"
    resource: llm
    consume: {rpm: 1, tpm: hits}
    settle: true
    give_back: true
  - match: {asks: "*"}
    entity: "{asks}"
    resource: llm
    consume: {rpm: 1, tpm: hits}
  - match: {checks: "*"}
    entity: "{checks}"
    resource: llm
    consume: {tpm: hits}
  - match: {banned: "yes"}
    answer: refuse
  - match: {banned: "no"}
    answer: allow
  - match: {free: "*"}
    entity: "{free}"
    resource: unknown
    consume: {rpm: 1}
    no_limits: allow
  - match: {lost: "*"}
    entity: "{lost}"
    resource: unknown
    consume: {rpm: 1}
  - match: {typo: "*"}
    entity: "{typo}"
    resource: api
    consume: {rps: 1}
  - domain: secret
    match: {key: "*"}
    entity: "key-{key|hash}"
    resource: api
    consume: {rpm: 1}
`

// world is a service on a memory store whose clock stands still.
type world struct {
	*rls.Service
	t    *testing.T
	lim  *limiter.RateLimiter
	repo limiter.Repository // without faults

	mu     sync.Mutex
	errors []error
	faults func(method string) repotest.Fault // nil for none
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func start(t *testing.T, text string) *world {
	t.Helper()
	w := &world{t: t, repo: memory.New(nil)}
	var err error
	w.lim, err = limiter.New(repotest.NewFaulty(w.repo, w.plan), &limiter.Options{Now: func() time.Time {
		return noon
	}})
	check(t, err)
	check(t, w.lim.SetResourceDefaults(t.Context(), "api", limiter.PerMinute("rpm", 10)))
	check(t,
		w.lim.SetResourceDefaults(t.Context(), "llm", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000)))
	parsed, err := rls.ParseRules([]byte(text))
	check(t, err)
	w.Service = rls.New(func(context.Context) (*limiter.RateLimiter, error) {
		return w.lim, nil
	}, parsed, &rls.Options{OnError: w.report})
	return w
}

// plan returns the fault of the next call of the store.
func (w *world) plan(method string) repotest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		return repotest.None
	}
	return w.faults(method)
}

// fail makes calls of the store fail.
func (w *world) fail(faults func(method string) repotest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = faults
}

func (w *world) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, err)
}

// reported returns the reports so far.
func (w *world) reported() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errors...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// descriptor returns a descriptor of keys and values.
func descriptor(entries ...string) *descriptors.RateLimitDescriptor {
	d := &descriptors.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &descriptors.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

// hits sets the hits of a descriptor; negative ones give back.
func hits(d *descriptors.RateLimitDescriptor, n int64) *descriptors.RateLimitDescriptor {
	d.IsNegativeHits = n < 0
	d.HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
	return d
}

func (w *world) ask(ds ...*descriptors.RateLimitDescriptor) *ratelimit.RateLimitResponse {
	w.t.Helper()
	response, err := w.ShouldRateLimit(w.t.Context(), &ratelimit.RateLimitRequest{Domain: "edge", Descriptors: ds})
	check(w.t, err)
	return response
}

// answer returns the codes of a response, with the overall code first.
func answer(r *ratelimit.RateLimitResponse) string {
	text := r.GetOverallCode().String() + ":"
	for _, s := range r.GetStatuses() {
		text += " " + s.GetCode().String()
	}
	return text
}

// wants checks the codes of a response.
func (w *world) wants(want string, r *ratelimit.RateLimitResponse) {
	w.t.Helper()
	if got := answer(r); got != want {
		w.t.Errorf("answer %s, want %s; reported: %v", got, want, w.reported())
	}
}

// left checks the balance of a limit.
func (w *world) left(entity, resource, limit string, want int64) {
	w.t.Helper()
	got, err := w.lim.Available(w.t.Context(), entity, resource)
	check(w.t, err)
	if got.Get(limit) != want {
		w.t.Errorf("%s has %d %s of %s, want %d", entity, got.Get(limit), limit, resource, want)
	}
}
