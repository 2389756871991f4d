package loadtest_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
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
			if _, err := test.CreateEntity(ctx, limiter.Entity{
				ID: "child", Parent: "parent", Cascade: cascade,
			}); err != nil {
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
	rate, quota := limiter.PerHour(limiter.RPH, 100), limiter.Quota(limiter.RPH, 100, limiter.EveryHour)
	for _, test := range []struct {
		name    string
		limit   limiter.Limit
		cascade bool
		extra   int
		store   func(limiter.Repository) limiter.Repository
		actual  int64
		broken  bool
	}{
		{name: "honest", actual: 1},
		{name: "honest with a quota", limit: quota, actual: 1},
		{name: "honest with a quota and give-backs", limit: quota, actual: 0},
		{name: "honest with a shadow limit", limit: rate.Shadow(), cascade: true, actual: 1},
		{name: "one token of a quota in excess", limit: quota, extra: 1, actual: 1, broken: true},
		{name: "honest with a parent", cascade: true, actual: 1},
		{name: "honest with give-backs", actual: 0},
		{name: "honest with debts", actual: 7},
		{name: "one token in excess", extra: 1, actual: 1, broken: true},
		{name: "one token in excess with a parent", cascade: true, extra: 1, actual: 1, broken: true},
		{name: "lost adjustments", actual: 7, broken: true, store: func(r limiter.Repository) limiter.Repository {
			return &forgetful{r}
		}},
	} {
		limit := test.limit
		if limit.Name == "" {
			limit = rate
		}
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

// TestPromiseHoldsInMemory checks that the auditor reports nothing where many
// users share buckets, adjust their leases and cascade.
func TestPromiseHoldsInMemory(t *testing.T) {
	repo := openMemory(t)
	for _, actual := range []int64{20, 50} {
		s := onLimit(limiter.PerHour("rph", 1000), true, 30, actual)
		s.Classes[0].Wait = loadtest.Wait{}
		ctx, cancel := context.WithCancel(t.Context())
		afterTasks(&s, 400, cancel)
		result, err := loadtest.Run(ctx, repo, s, &loadtest.Options{Users: 50, SpawnRate: 10000})
		cancel()
		check(t, err)
		if p := result.Promise; p.Broken > 0 || p.Checks < 20 {
			t.Errorf("use %d: %+v", actual, p)
		}
		if result.Refused == 0 {
			t.Errorf("use %d: nothing was refused, so nothing was tested", actual)
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

// slow is a store whose calls take a random time before and after they change
// anything, so that answers come in another order than changes.
type slow struct {
	limiter.Repository
	delay func() time.Duration
}

func (s *slow) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := s.Repository.Namespace(ctx, name)
	return &slow{view, s.delay}, err
}

func (s *slow) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	time.Sleep(s.delay())
	defer func() { time.Sleep(s.delay()) }()
	return s.Repository.Consume(ctx, now, charge)
}

func (s *slow) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	time.Sleep(s.delay())
	defer func() { time.Sleep(s.delay()) }()
	return s.Repository.Credit(ctx, now, credits...)
}

// TestPromiseAllowsForSlowAnswers checks that the auditor never reports an honest
// store, in whatever order answers come, and still finds a large excess.
func TestPromiseAllowsForSlowAnswers(t *testing.T) {
	for seed := range uint64(6) {
		for _, extra := range []int{0, 1000} {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(seed, 1))
				delay := func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					if random.IntN(20) == 0 {
						return time.Duration(random.Int64N(int64(300 * time.Millisecond)))
					}
					return time.Duration(random.Int64N(int64(10 * time.Millisecond)))
				}
				limit := limiter.PerMinute("rpm", 60+random.Int64N(1000)).WithBurst(10 + random.Int64N(90))
				estimate := 1 + random.Int64N(9)
				most := 2 * estimate
				if seed%2 == 1 { // hardly any refill, so that give-backs decide
					limit, most = limiter.PerHour("rpm", 100).WithBurst(10+random.Int64N(20)), estimate/10
				}
				s := onLimit(limit, true, 1, 0)
				s.Classes[0].Tasks[0].Run = adjustAtRandom(limit.Name, estimate, most)
				repo := &slow{&cheater{openMemory(t), &cheats{extra: extra}}, delay}
				result, err := loadtest.Run(t.Context(), repo, s, &loadtest.Options{
					Users: 8, SpawnRate: 1000, Duration: 5 * time.Second, Seed: seed + 1,
				})
				check(t, err)
				if p := result.Promise; p.Broken > 0 && extra == 0 || p.Broken == 0 && extra > 0 && seed%2 == 0 ||
					p.Checks == 0 {
					t.Errorf("seed %d, %s, %d in excess: %+v", seed, limit, extra, p)
				}
			})
		}
	}
}

// adjustAtRandom returns a task that uses up to most tokens, which is less than the
// estimate or more.
func adjustAtRandom(limit string, estimate, most int64) func(context.Context, *loadtest.User) error {
	return func(ctx context.Context, u *loadtest.User) error {
		req := limiter.Request{Entity: "child", Resource: "api", Consume: limiter.Tokens(limit, estimate)}
		return u.Do(ctx, req, func(l *loadtest.Lease) error {
			time.Sleep(time.Duration(u.Rand.Int64N(int64(50 * time.Millisecond))))
			return l.Used(limit, u.Rand.Int64N(most+1))
		})
	}
}

// lateAnswer is a store that answers charges of a time only after a while.
type lateAnswer struct {
	limiter.Repository
	from, until time.Time
	late        time.Duration
}

func (s *lateAnswer) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := s.Repository.Namespace(ctx, name)
	return &lateAnswer{view, s.from, s.until, s.late}, err
}

func (s *lateAnswer) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := s.Repository.Consume(ctx, now, charge)
	if !now.Before(s.from) && now.Before(s.until) {
		time.Sleep(s.late)
	}
	return out, err
}

// TestPromiseAllowsForAGiveBackAfterALateDebit checks this order: a bucket is full
// again, a charge empties it and is answered late, an old lease gives back all it
// had, and another charge takes that. The answers show two charges of the whole
// capacity without a give-back between them.
func TestPromiseAllowsForAGiveBackAfterALateDebit(t *testing.T) {
	const capacity = 10
	request := limiter.Request{Entity: "e", Resource: "api", Consume: limiter.Tokens("rate", capacity)}
	roles := []func(context.Context, *loadtest.User) error{
		func(ctx context.Context, u *loadtest.User) error {
			return u.Do(ctx, request, func(l *loadtest.Lease) error {
				time.Sleep(20*time.Minute + 2*time.Second)
				return l.Used("rate", 0)
			})
		},
		func(ctx context.Context, u *loadtest.User) error {
			time.Sleep(20 * time.Minute)
			_, err := u.Acquire(ctx, request)
			return err
		},
		func(ctx context.Context, u *loadtest.User) error {
			time.Sleep(20*time.Minute + 3*time.Second)
			_, err := u.Acquire(ctx, request)
			return err
		},
	}
	synctest.Test(t, func(t *testing.T) {
		s := loadtest.Scenario{
			Name: "late",
			Setup: func(ctx context.Context, test *loadtest.Test) error {
				return test.SetResourceDefaults(ctx, "api", limiter.Custom("rate", capacity, capacity, 10*time.Minute))
			},
			Classes: []loadtest.Class{{
				Name: "User", Wait: loadtest.Wait{Min: 24 * time.Hour, Max: 24 * time.Hour},
				Tasks: []loadtest.Task{{Name: "role", Run: func(ctx context.Context, u *loadtest.User) error {
					return roles[u.Number](ctx, u)
				}}},
			}},
		}
		from := time.Now().Add(20 * time.Minute)
		repo := &lateAnswer{openMemory(t), from, from.Add(time.Second), 10 * time.Second}
		r, err := loadtest.Run(t.Context(), repo, s, &loadtest.Options{
			Users: 3, SpawnRate: 1000, Duration: 21 * time.Minute, Interval: time.Hour,
		})
		check(t, err)
		if r.Admitted != 3 || r.Promise.Checks != 3 {
			t.Fatalf("%d admitted, %d refused, %+v; want three admissions", r.Admitted, r.Refused, r.Promise)
		}
		if r.Promise.Broken > 0 {
			t.Errorf("%+v", r.Promise)
		}
	})
}
