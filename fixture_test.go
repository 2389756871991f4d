package limiter_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// noon is the start time of every test.
var noon = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

const (
	resource = "gpt-4"
	alice    = "alice"
	project  = "project-1"
)

var bg = context.Background()

// clock advances only when a test advances it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// store is a repository with hooks. A hook, if set, replaces the method of that
// name, and may call the embedded repository.
type store struct {
	limiter.Repository
	mu        sync.Mutex
	onConsume func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error)
	onPeek    func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error)
	onCredit  func(context.Context, time.Time, ...limiter.Credit) error
}

func locked[T any](s *store, hook *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *hook
}

func (s *store) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if hook := locked(s, &s.onConsume); hook != nil {
		return hook(ctx, now, c)
	}
	return s.Repository.Consume(ctx, now, c)
}

func (s *store) Peek(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if hook := locked(s, &s.onPeek); hook != nil {
		return hook(ctx, now, c)
	}
	return s.Repository.Peek(ctx, now, c)
}

func (s *store) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if hook := locked(s, &s.onCredit); hook != nil {
		return hook(ctx, now, credits...)
	}
	return s.Repository.Credit(ctx, now, credits...)
}

var errDown = errors.New("connection refused")

// down makes every charge and every settlement fail.
func (s *store) down() {
	fail := func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
		return limiter.Outcome{}, errDown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onConsume, s.onPeek = fail, fail
	s.onCredit = func(context.Context, time.Time, ...limiter.Credit) error { return errDown }
}

func (s *store) up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onConsume, s.onPeek, s.onCredit = nil, nil, nil
}

// untouched is a store that panics on every call.
type untouched struct{ limiter.Repository }

// world is a limiter on a memory store with a clock of its own.
type world struct {
	*limiter.RateLimiter
	t     *testing.T // the test that created it
	store *store
	clock *clock
}

// start returns a world with the given system limits, if any.
func start(t *testing.T, limits ...limiter.Limit) *world {
	t.Helper()
	return startWith(t, limiter.Options{}, memory.Options{}, limits...)
}

func startWith(t *testing.T, opts limiter.Options, mem memory.Options, limits ...limiter.Limit) *world {
	t.Helper()
	w := &world{t: t, store: &store{Repository: memory.New(&mem)}, clock: &clock{at: noon}}
	if opts.Now == nil {
		opts.Now = w.clock.now
	}
	w.RateLimiter = newLimiter(t, w.store, &opts)
	if len(limits) > 0 {
		check(t, w.SetSystemDefaults(bg, limits...))
	}
	return w
}

func newLimiter(t *testing.T, repo limiter.Repository, opts *limiter.Options) *limiter.RateLimiter {
	t.Helper()
	lim, err := limiter.New(repo, opts)
	check(t, err)
	return lim
}

// family makes alice a child of the project, with cascade.
func (w *world) family(t *testing.T) {
	t.Helper()
	_, err := w.CreateEntity(bg, limiter.Entity{ID: alice, Parent: project, Cascade: true})
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func request(entity string, amounts limiter.Amounts) limiter.Request {
	return limiter.Request{Entity: entity, Resource: resource, Consume: amounts}
}

// take acquires and fails the test if the request is refused.
func (w *world) take(t *testing.T, entity string, amounts limiter.Amounts) *limiter.Lease {
	t.Helper()
	lease, err := w.Acquire(bg, request(entity, amounts))
	check(t, err)
	return lease
}

// refuse acquires for alice and fails the test if the request is admitted.
func (w *world) refuse(t *testing.T, amounts limiter.Amounts) limiter.Decision {
	t.Helper()
	_, err := w.Acquire(bg, request(alice, amounts))
	return exceeded(t, err)
}

func exceeded(t *testing.T, err error) limiter.Decision {
	t.Helper()
	ex, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		t.Fatalf("got %v, want an *ExceededError", err)
	}
	return ex.Decision
}

func invalid(t *testing.T, err error, field string) limiter.InvalidError {
	t.Helper()
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	if !ok || bad.Field != field {
		t.Fatalf("got %v, want an *InvalidError for %q", err, field)
	}
	return *bad
}

func is(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

// left returns the balance of a limit in the entity's own bucket, without its
// parent.
func (w *world) left(t *testing.T, entity, limit string) int64 {
	t.Helper()
	statuses, err := w.Status(bg, entity)
	check(t, err)
	for _, s := range statuses {
		if s.Resource == resource && s.Limit.Name == limit {
			return s.Available
		}
	}
	t.Fatalf("%s has no bucket with limit %s", entity, limit)
	return 0
}

func (w *world) wantLeft(t *testing.T, entity, limit string, want int64) {
	t.Helper()
	if got := w.left(t, entity, limit); got != want {
		t.Errorf("%s has %d %s left, want %d", entity, got, limit, want)
	}
}

// collect returns all values of a sequence and fails the test on an error.
func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		check(t, err)
		all = append(all, v)
	}
	return all
}

// last returns the error that ends a sequence.
func last[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func rpm(n int64) limiter.Amounts { return limiter.Tokens("rpm", n) }
func tpm(n int64) limiter.Amounts { return limiter.Tokens("tpm", n) }
