package loadtest_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// cheater is a store that admits some charges that it should refuse.
type cheater struct {
	limiter.Repository
	book *cheats
}

// cheats counts what a store may admit in excess, for all its views.
type cheats struct {
	mu    sync.Mutex
	extra int
}

func (c *cheater) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := c.Repository.Namespace(ctx, name)
	return &cheater{view, c.book}, err
}

func (c *cheater) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := c.Repository.Consume(ctx, now, charge)
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	if err == nil && !out.Admitted && c.book.extra > 0 {
		c.book.extra--
		out.Admitted = true
	}
	return out, err
}

// forgetful is a store that loses the debits of adjustments.
type forgetful struct{ limiter.Repository }

func (f *forgetful) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := f.Repository.Namespace(ctx, name)
	return &forgetful{view}, err
}

func (f *forgetful) Credit(context.Context, time.Time, ...limiter.Credit) error { return nil }

// onLimit returns a scenario whose users share one entity with a limit.
func onLimit(limit limiter.Limit, cascade bool, estimate, actual int64) loadtest.Scenario {
	return loadtest.Scenario{
		Name: "shared",
		Setup: func(ctx context.Context, test *loadtest.Test) error {
			if _, err := test.CreateEntity(ctx, limiter.Entity{ID: "child", Parent: "parent", Cascade: cascade}); err != nil {
				return err
			}
			return test.SetResourceDefaults(ctx, "api", limit)
		},
		Classes: []loadtest.Class{{
			Name: "User", Wait: loadtest.Wait{Max: 2 * time.Millisecond},
			Tasks: []loadtest.Task{{Name: "acquire", Run: func(ctx context.Context, u *loadtest.User) error {
				req := limiter.Request{Entity: "child", Resource: "api", Consume: limiter.Tokens(limit.Name, estimate)}
				return u.Do(ctx, req, func(l *loadtest.Lease) error { return l.Used(limit.Name, actual) })
			}}},
		}},
	}
}

func TestPromiseFindsACheat(t *testing.T) {
	limit := limiter.PerHour(limiter.RPH, 100)
	for _, test := range []struct {
		name    string
		cascade bool
		extra   int
		store   func(limiter.Repository) limiter.Repository
		actual  int64
		broken  bool
	}{
		{name: "honest", actual: 1},
		{name: "honest with a parent", cascade: true, actual: 1},
		{name: "honest with give-backs", actual: 0},
		{name: "honest with debts", actual: 7},
		{name: "one token in excess", extra: 1, actual: 1, broken: true},
		{name: "one token in excess with a parent", cascade: true, extra: 1, actual: 1, broken: true},
		{name: "lost adjustments", actual: 7, broken: true, store: func(r limiter.Repository) limiter.Repository { return &forgetful{r} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var repo limiter.Repository = &cheater{openMemory(t), &cheats{extra: test.extra}}
				if test.store != nil {
					repo = test.store(repo)
				}
				result, err := loadtest.Run(t.Context(), repo, onLimit(limit, test.cascade, 1, test.actual),
					&loadtest.Options{Users: 5, SpawnRate: 100, Duration: 300 * time.Millisecond})
				check(t, err)
				p := result.Promise
				if p.Checks < 10 || p.Limits == 0 {
					t.Errorf("%d checks of %d limits", p.Checks, p.Limits)
				}
				if (p.Broken > 0) != test.broken {
					t.Errorf("%+v, want broken: %v", p, test.broken)
				}
				if test.broken && (p.Excess < 980 || p.Resource != "api" || p.Limit != limit.Name) {
					t.Errorf("%+v, want an excess of about a token of %s", p, limit.Name)
				}
			})
		})
	}
}

// TestPromiseHoldsOnOurStores checks that the auditor reports nothing where many
// users share buckets, adjust their leases and cascade.
func TestPromiseHoldsOnOurStores(t *testing.T) {
	onDisk, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	check(t, err)
	defer func() { check(t, onDisk.Close()) }()
	for name, repo := range map[string]limiter.Repository{"memory": openMemory(t), "sqlite": onDisk} {
		for _, actual := range []int64{20, 50} {
			s := onLimit(limiter.PerHour("rph", 1000), true, 30, actual)
			s.Classes[0].Wait = loadtest.Wait{}
			ctx, cancel := context.WithCancel(t.Context())
			afterTasks(&s, 400, cancel)
			result, err := loadtest.Run(ctx, repo, s, &loadtest.Options{Users: 50, SpawnRate: 10000})
			cancel()
			check(t, err)
			if p := result.Promise; p.Broken > 0 || p.Checks < 20 {
				t.Errorf("%s, use %d: %+v", name, actual, p)
			}
			if result.Refused == 0 {
				t.Errorf("%s, use %d: nothing was refused, so nothing was tested", name, actual)
			}
		}
	}
}

// afterTasks calls done when so many tasks of the first class have ended.
func afterTasks(s *loadtest.Scenario, n int64, done func()) {
	var ended atomic.Int64
	run := s.Classes[0].Tasks[0].Run
	s.Classes[0].Tasks[0].Run = func(ctx context.Context, u *loadtest.User) error {
		defer func() {
			if ended.Add(1) == n {
				done()
			}
		}()
		return run(ctx, u)
	}
}
