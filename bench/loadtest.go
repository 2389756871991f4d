package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// loadMemory is the memory in MiB into which 100,000 users must fit.
const loadMemory = 1024

// loadtestSection measures the load generator itself: its cost for one task, the
// memory of its users, and its throughput beside a plain loop.
func loadtestSection(ctx context.Context, cfg config, r *report) error {
	for _, step := range []func(context.Context, config, *report) error{
		generatorCost, generatorMemory, generatorBesideLoop,
	} {
		if err := step(ctx, cfg, r); err != nil {
			return err
		}
	}
	return nil
}

// generatorCost measures a task on a store that answers at once, on one core.
func generatorCost(ctx context.Context, cfg config, r *report) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))

	var rows [][]string
	for _, kind := range []struct {
		name  string
		users int
		wait  loadtest.Wait
	}{
		{"back to back", 1, loadtest.Wait{}},
		{"100 users with pauses of 1 ms", 100, loadtest.Wait{Min: time.Millisecond, Max: time.Millisecond}},
	} {
		var micros, reported series
		for range cfg.rounds {
			cpu, begin := loadtest.CPUTime(), time.Now()
			result, err := loadtest.Run(ctx, newInstantStore(), instantScenario(kind.wait), &loadtest.Options{
				Users: kind.users, SpawnRate: 1e6, Duration: 4 * cfg.sample,
			})
			if err != nil {
				return err
			}
			// Run returns no error when ctx ends, but the figures are
			// incomplete.
			if err := ctx.Err(); err != nil {
				return err
			}

			used := loadtest.CPUTime() - cpu
			// The CPU time is unknown on this system.
			if used == 0 {
				used = time.Since(begin)
			}

			micros = append(micros, float64(used.Nanoseconds())/1000/float64(result.Total.Requests))
			reported = append(reported, result.Total.PerSecond)
		}

		r.atMost(5, micros, "loadtest: us of the generator for one task, %s", kind.name)
		rows = append(rows, []string{kind.name, micros.show("%.2f"), fmt.Sprintf("%.0f", reported.median())})
	}

	return r.table([]string{"generator on one core", "us/task", "tasks/s"}, rows)
}

// instantStore is a store that admits every charge at once.
type instantStore struct {
	limiter.Repository
	account limiter.Account
}

func newInstantStore() *instantStore {
	return &instantStore{Repository: memory.New(nil), account: limiter.Account{
		Entity: "user", Resource: "api", Limits: []limiter.Limit{limiter.PerMinute(limiter.RPM, 1e9)},
	}}
}

// Namespace returns s itself, after a check that the name is registered.
func (s *instantStore) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	_, err := s.Repository.Namespace(ctx, name)
	return s, err
}

// Consume admits the charge.
func (s *instantStore) Consume(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
	return limiter.Outcome{Admitted: true, Payers: []limiter.Bucket{{Account: &s.account, Tokens: []int64{1e12}}}}, nil
}

func instantScenario(wait loadtest.Wait) loadtest.Scenario {
	request := limiter.Request{Entity: "user", Resource: "api", Consume: limiter.Tokens(limiter.RPM, 1)}
	return loadtest.Scenario{Name: "instant", Classes: []loadtest.Class{{
		Name: "User", Wait: wait,
		Tasks: []loadtest.Task{{Name: "acquire", Run: func(ctx context.Context, u *loadtest.User) error {
			return u.Do(ctx, request, func(*loadtest.Lease) error { return nil })
		}}},
	}}}
}

// usersCommand is the first argument of a process that runs many users and prints
// how many, and the memory that it took from the system in MiB. The others are
// the number of users and the duration.
const usersCommand = "-loadtest-users"

// generatorMemory measures a process with many users.
func generatorMemory(ctx context.Context, cfg config, r *report) error {
	c, err := start(ctx, nil, thisProgram, usersCommand, strconv.Itoa(cfg.users), (40 * cfg.sample).String())
	if err != nil {
		return err
	}

	line, err := c.line()
	if err != nil {
		return err
	}

	var most int
	var mib float64
	if _, err := fmt.Sscan(line, &most, &mib); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}

	if most < cfg.users {
		return fmt.Errorf("only %d of %d users ran at once", most, cfg.users)
	}

	r.atMost(loadMemory, series{mib}, "loadtest: MiB of a process with %d users", cfg.users)
	r.line("  %d users of simple on memory take %.0f MiB from the system", most, mib)
	return c.close()
}

// serveUsers runs users for a time and prints what usersCommand says.
func serveUsers(ctx context.Context, count, lasts string, out io.Writer) error {
	users, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(lasts)
	if err != nil {
		return err
	}
	scenario, err := loadtest.Find("simple", "")
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	most := 0
	// All users start in the first quarter of the time.
	_, err = loadtest.Run(ctx, memory.New(nil), scenario, &loadtest.Options{
		Classes: []string{"SimpleUser"}, Users: users, SpawnRate: 4 * float64(users) / duration.Seconds(),
		Interval: duration / 10,
		Report: func(s loadtest.Snapshot) {
			// A busy machine starts users late, so the test goes on until all
			// of them run.
			if most = max(most, s.Users); most >= users && s.Elapsed > duration {
				cancel()
			}
		},
	})

	fmt.Fprintf(out, "%d %.1f\n", most, float64(memStats().Sys)/(1<<20))
	return err
}

// generatorBesideLoop compares max_rps with a plain loop of the same calls.
func generatorBesideLoop(ctx context.Context, cfg config, r *report) error {
	cfg = dynamoConfig(cfg, 6)
	return onEngine(ctx, cfg, r, func(endpoint string) error {
		if err := prepare(ctx, endpoint); err != nil {
			return err
		}

		aws := awsConfig()
		// The calls of a test have ended before its namespace is purged, so the
		// purge need not wait for them.
		g, err := connect(ctx, &dynamo.Options{Endpoint: endpoint, AWS: &aws, PurgeWait: -1})
		if err != nil {
			return err
		}
		return errors.Join(g.compareWithLoop(ctx, cfg, r), g.close())
	})
}

const nameGenerator, nameLoop = "loadtest max_rps", "plain loop"

func (g *rig) compareWithLoop(ctx context.Context, cfg config, r *report) error {
	all := measured{}
	// The JVM compiles in the first round, which does not count.
	for round := range cfg.rounds + 1 {
		for _, n := range cfg.callers {
			for _, name := range []string{nameGenerator, nameLoop} {
				if err := ctx.Err(); err != nil {
					return err
				}

				run := g.generate
				if name == nameLoop {
					run = g.loop
				}

				rate, err := run(ctx, n, cfg.sample, round)
				if err != nil {
					return err
				}

				if round > 0 {
					id := caller{name, n}
					all[id] = append(all[id], figures{perSecond: rate})
				}
			}
		}
	}

	var rows [][]string
	for _, n := range cfg.callers {
		ratio := all.over(caller{nameGenerator, n}, caller{nameLoop, n}, perSecond)
		r.atLeast(0.95, ratio, "loadtest: throughput of max_rps / plain loop on DynamoDB Local, %s", callersOf(n))
		rows = append(rows, []string{
			strconv.Itoa(n), fmt.Sprintf("%.0f", all.of(caller{nameGenerator, n}, perSecond).median()),
			fmt.Sprintf("%.0f", all.of(caller{nameLoop, n}, perSecond).median()), ratio.ratio(),
		})
	}
	return r.table([]string{"callers", "max_rps calls/s", "plain loop calls/s", "ratio"}, rows)
}

// generate returns the calls a second of a test with so many users.
func (g *rig) generate(ctx context.Context, users int, lasts time.Duration, _ int) (float64, error) {
	scenario, err := loadtest.Find("max_rps", "")
	if err != nil {
		return 0, err
	}

	// A store on DynamoDB may admit 2 % of a capacity in excess.
	result, err := loadtest.Run(ctx, g.repo, scenario, &loadtest.Options{
		Classes: []string{"MaxRpsUser"}, Users: users, SpawnRate: 1e6, Duration: lasts, Slack: 0.02,
	})
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("%d calls of max_rps failed: %v", result.Failed, result.Failures)
	}
	return float64(result.Admitted) / result.Elapsed.Seconds(), err
}

// loop returns the calls a second of as many goroutines, each with an entity of
// its own that is new, as in a test.
func (g *rig) loop(ctx context.Context, callers int, lasts time.Duration, round int) (float64, error) {
	begin := time.Now()
	counts := make([]int, callers)

	err := parallel(callers, func(worker, _ int) error {
		request := limiter.Request{
			Entity: fmt.Sprintf("loop-%d-%d-%d", callers, round, worker), Resource: "api",
			Consume: limiter.Tokens("rpm", 1),
		}

		for time.Since(begin) < lasts {
			lease, err := g.lim.Acquire(ctx, request)
			if err != nil {
				return err
			}
			if err := lease.Commit(ctx); err != nil {
				return err
			}
			counts[worker]++
		}
		return nil
	})(callers)

	took := time.Since(begin)
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / took.Seconds(), err
}
