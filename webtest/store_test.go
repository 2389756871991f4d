package webtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// store is an SQLite file that the test shares with the program.
type store struct {
	t    *testing.T
	path string
	repo *sqlite.Repository
	lim  *limiter.RateLimiter
	now  time.Time // the zero time means the real one
}

func newStore(t *testing.T) *store {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "limits.db"))
}

// openStore opens a file, or creates it.
func openStore(t *testing.T, path string) *store {
	t.Helper()
	s := &store{t: t, path: path}
	var err error
	if s.repo, err = sqlite.Open(t.Context(), s.path, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.repo.Close() })
	s.lim, err = limiter.New(s.repo, &limiter.Options{Now: s.time, Principal: "webtest"})
	s.must(err)
	return s
}

// URL returns the value of --store.
func (s *store) URL() string { return "sqlite:" + s.path }

func (s *store) time() time.Time {
	if s.now.IsZero() {
		return time.Now()
	}
	return s.now
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// fixed returns a limit that does not refill while a test runs, so that the page
// shows exact figures.
func fixed(name string, capacity int64) limiter.Limit {
	return limiter.Custom(name, capacity, 1, 1000*24*time.Hour)
}

// limits sets the limits of an entity and resource. An empty resource means all,
// and an empty entity means the defaults.
func (s *store) limits(entity, resource string, limits ...limiter.Limit) {
	s.t.Helper()
	ctx := s.t.Context()
	switch {
	case entity != "":
		s.must(s.lim.SetLimits(ctx, entity, resource, limits...))
	case resource != "":
		s.must(s.lim.SetResourceDefaults(ctx, resource, limits...))
	default:
		s.must(s.lim.SetSystemDefaults(ctx, limits...))
	}
}

// use takes tokens, if need be as debt.
func (s *store) use(entity, resource string, amounts limiter.Amounts) {
	s.t.Helper()
	_, err := s.lim.Adjust(s.t.Context(), limiter.Request{Entity: entity, Resource: resource, Consume: amounts})
	s.must(err)
}

func (s *store) entity(e limiter.Entity) {
	s.t.Helper()
	_, err := s.lim.CreateEntity(s.t.Context(), e)
	s.must(err)
}

// requestsOnly returns the use of n requests.
func requestsOnly(n int64) limiter.Amounts { return limiter.Tokens("rpm", n) }
