package loadtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// counter counts events by type and kind of failure.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) record(e loadtest.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	key := e.Type + " " + e.Name
	if e.Err != nil {
		key += " " + loadtest.Kind(e.Err)
	}
	c.counts[key]++
}

func newSwarm(t *testing.T, repo limiter.Repository, s loadtest.Scenario, o *loadtest.SwarmOptions) *loadtest.Swarm {
	t.Helper()
	w, err := loadtest.NewSwarm(repo, s, o)
	check(t, err)
	check(t, w.Setup(t.Context()))
	return w
}

func TestSwarmScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events counter
		w := newSwarm(t, openMemory(t), find(t, "simple"), &loadtest.SwarmOptions{Record: events.record})
		scale := func(alone, cascading int) {
			t.Helper()
			counts := map[string]int{"SimpleUser": alone, "SimpleCascadeUser": cascading}
			check(t, w.Scale(counts))
			if got := w.Users(); !maps.Equal(got, counts) {
				t.Errorf("%v users, want %v", got, counts)
			}
			time.Sleep(10 * time.Second)
		}
		scale(3, 2)
		scale(10, 0)
		scale(0, 7)
		check(t, w.Stop(t.Context()))
		synctest.Wait()
		before := w.Tasks()
		time.Sleep(time.Minute)
		if n := w.Tasks(); n != before || int(n) != events.counts["ACQUIRE api"] || n < 250 {
			t.Errorf("%d tasks, %d a minute after the stop, %v", before, n, events.counts)
		}
		scale(1, 0) // a swarm can start again
		check(t, w.Stop(t.Context()))
		if w.Tasks() == before {
			t.Error("no task after the second start")
		}
		check(t, w.Teardown(t.Context()))
	})
}

func TestSwarmRejectsWrongCounts(t *testing.T) {
	w, err := loadtest.NewSwarm(openMemory(t), find(t, "simple"), nil)
	check(t, err)
	if err := w.Scale(map[string]int{"SimpleUser": 1}); err == nil {
		t.Error("users started before Setup")
	}
	check(t, w.Setup(t.Context()))
	for name, n := range map[string]int{"Other": 1, "SimpleUser": -1} {
		if err := w.Scale(map[string]int{name: n}); err == nil {
			t.Errorf("%d users of class %s started", n, name)
		}
	}
}

// TestStopWaitsForTasks checks that Stop returns only after the last event, and
// cancels tasks only after its context has ended.
func TestStopWaitsForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := loadtest.Scenario{Name: "slow", Classes: []loadtest.Class{{Name: "User", Tasks: []loadtest.Task{{
			Name: "work", Run: func(ctx context.Context, u *loadtest.User) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Minute):
					return u.IsAvailable(ctx)
				}
			},
		}}}}}
		var events counter
		w := newSwarm(t, openMemory(t), slow, &loadtest.SwarmOptions{Record: events.record})
		check(t, w.Scale(map[string]int{"User": 5}))
		time.Sleep(time.Second)
		check(t, w.Stop(t.Context()))
		if n := events.counts["IS_AVAILABLE system"]; n != 5 {
			t.Errorf("%d events when Stop returned, want 5", n)
		}
		check(t, w.Scale(map[string]int{"User": 5}))
		time.Sleep(time.Second)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("Stop returned %v after %v, want the end of its context", err, time.Since(begin))
		}
		if len(events.counts) != 1 {
			t.Errorf("%v, want no event of a cancelled task", events.counts)
		}
	})
}

// TestProcessesShareATest checks what two processes of one test do: they share
// the namespace and the parent, their users have different entities, and the
// second removal finds nothing to do.
func TestProcessesShareATest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := openMemory(t)
		var swarms []*loadtest.Swarm
		for _, worker := range []string{"a", "b"} {
			w := newSwarm(t, repo, find(t, "simple"), &loadtest.SwarmOptions{ID: "0123abcd", Worker: worker})
			check(t, w.Scale(map[string]int{"SimpleCascadeUser": 20}))
			swarms = append(swarms, w)
		}
		time.Sleep(5 * time.Second)
		for _, w := range swarms {
			check(t, w.Stop(t.Context()))
		}
		if a, b := swarms[0].Test(), swarms[1].Test(); a.Namespace != "loadtest-simple-0123abcd" ||
			b.Namespace != a.Namespace {
			t.Errorf("namespaces %s and %s", a.Namespace, b.Namespace)
		}
		lim := swarms[0].Test().Limiter()
		parent := swarms[0].Test().SharedID("org")
		children := 0
		for child, err := range lim.Children(t.Context(), parent) {
			check(t, err)
			children++
			if !regexp.MustCompile(`^user-[0-9a-f]{8}$`).MatchString(child.ID) {
				t.Errorf("child %s", child.ID)
			}
		}
		if children != 40 {
			t.Errorf("%d children of %s, want 40", children, parent)
		}
		left, err := lim.Available(t.Context(), parent, "api")
		check(t, err)
		tasks := swarms[0].Tasks() + swarms[1].Tasks()
		if used := 1_000_000_000 - left.Get("rpm"); used > tasks || tasks == 0 {
			t.Errorf("the parent paid %d of %d", used, tasks)
		}
		for _, w := range append(swarms, newUnset(t, repo)) {
			check(t, w.Teardown(t.Context()))
		}
		if n := namespaces(t, repo); n != 1 {
			t.Errorf("%d namespaces left, want only the default", n)
		}
	})
}

// newUnset returns a swarm that was not set up.
func newUnset(t *testing.T, repo limiter.Repository) *loadtest.Swarm {
	t.Helper()
	w, err := loadtest.NewSwarm(repo, find(t, "simple"), &loadtest.SwarmOptions{ID: "0123abcd", Worker: "c"})
	check(t, err)
	return w
}

func TestEntitiesOfUsersDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, worker := range []string{"", "w1", "w2"} {
		test := &loadtest.Test{ID: "0123abcd", Worker: worker}
		for n := range 20_000 {
			seen[(&loadtest.User{Test: test, Number: n}).ID("user")] = true
		}
		if worker == "" && len(seen) != 20_000 {
			t.Errorf("%d entities for 20,000 users of one process", len(seen))
		}
	}
	if len(seen) < 59_990 {
		t.Errorf("%d entities for 60,000 users of three processes", len(seen))
	}
}

// TestErrorsOfTasks checks that the error of a call counts once, a refusal not at
// all, and the error of a scenario under a kind of its own.
func TestErrorsOfTasks(t *testing.T) {
	request := limiter.Request{Entity: "e", Resource: "api", Consume: limiter.Tokens("rpm", 1)}
	for want, run := range map[string]func(context.Context, *loadtest.User) error{
		"GET_ENTITY entity not found": func(ctx context.Context, u *loadtest.User) error {
			_, err := u.Client.Entity(ctx, "missing")
			return fmt.Errorf("wrapped: %w", err)
		},
		"ACQUIRE none invalid": func(ctx context.Context, u *loadtest.User) error {
			_, err := u.Acquire(ctx, limiter.Request{Entity: "e", Resource: "none", Consume: limiter.Tokens("rpm", 1)})
			return err
		},
		"RATE_LIMITED api": func(ctx context.Context, u *loadtest.User) error {
			_, err := u.Acquire(ctx, request)
			return err
		},
		"RATE_LIMITED other": func(ctx context.Context, u *loadtest.User) error {
			return u.As("other").Do(ctx, request, func(*loadtest.Lease) error { return errors.New("unreachable") })
		},
		"TASK work task": func(context.Context, *loadtest.User) error { return errors.New("a bug") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := loadtest.Scenario{
				Name: "errors",
				Setup: func(ctx context.Context, test *loadtest.Test) error {
					if err := test.SetResourceDefaults(ctx, "api", limiter.PerHour("rpm", 1)); err != nil {
						return err
					}
					_, err := test.Acquire(ctx, request)
					return err
				},
				Classes: []loadtest.Class{{
					Name: "User", Wait: loadtest.Wait{Min: time.Second, Max: time.Second},
					Tasks: []loadtest.Task{{Name: "work", Run: run}},
				}},
			}
			var events counter
			w := newSwarm(t, openMemory(t), s, &loadtest.SwarmOptions{Record: events.record})
			check(t, w.Scale(map[string]int{"User": 1}))
			time.Sleep(2500 * time.Millisecond)
			check(t, w.Stop(t.Context()))
			if events.counts[want] != 3 || len(events.counts) != 1 {
				t.Errorf("%v, want %q three times", events.counts, want)
			}
		})
	}
}

// TestStartIsRepeated checks that a user whose start fails tries again.
func TestStartIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := loadtest.Scenario{Name: "starts", Classes: []loadtest.Class{{
			Name: "User", Wait: loadtest.Wait{Min: time.Second, Max: time.Second},
			Start: func(context.Context, *loadtest.User) error {
				if tries++; tries < 3 {
					return errors.New("not yet")
				}
				return nil
			},
			Tasks: []loadtest.Task{{Name: "ping", Run: func(ctx context.Context, u *loadtest.User) error {
				return u.IsAvailable(ctx)
			}}},
		}}}
		var events counter
		w := newSwarm(t, openMemory(t), s, &loadtest.SwarmOptions{Record: events.record})
		check(t, w.Scale(map[string]int{"User": 1}))
		time.Sleep(3500 * time.Millisecond)
		check(t, w.Stop(t.Context()))
		if want := (map[string]int{"TASK start task": 2, "IS_AVAILABLE system": 2}); !maps.Equal(events.counts, want) {
			t.Errorf("%v, want %v", events.counts, want)
		}
	})
}
