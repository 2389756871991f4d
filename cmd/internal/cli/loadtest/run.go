package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type runOptions struct {
	accountTest
	task           taskFlags
	users, workers int
	spawnRate      float64
	duration       time.Duration
	json           bool
}

func newRun(c *kit.Console, p Program) *cobra.Command {
	o := &runOptions{
		accountTest: newAccountTest(c, p),
		users:       loadtest.DefaultUsers, spawnRate: loadtest.DefaultSpawnRate, duration: loadtest.DefaultDuration,
	}
	cmd := &cobra.Command{
		Use:   "run -f SCENARIO [CLASS...]",
		Short: "Run a load test in an AWS account",
		Long: `Run a scenario on a table in an AWS account, from the load stack that
"zae-limiter loadtest deploy" created, and print the results. Without --workers,
one invocation of the worker function runs all users. With --workers, a task
with a Locust master starts, and so many invocations run the users; that needs
the Session Manager plugin for the AWS CLI. The task is stopped at the end.

A function cannot run longer than its timeout, and stops its users when a tenth
of it is left. Ctrl-C ends the test early and prints the results up to then.

` + kit.StackHelp,
		Example: "  zae-limiter loadtest run -n my-app -f max_rps --users 50 --duration 2m\n" +
			"  zae-limiter loadtest run -n my-app -f simple --users 1000 --workers 50",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"port", "cpu", "memory"} {
				if cmd.Flags().Changed(flag) && o.workers == 0 && !o.task.standalone {
					return kit.Usagef("--%s has no effect without --workers; add it or leave the flag out", flag)
				}
			}

			return runRun(cmd.Context(), o, args)
		},
	}

	o.addTo(cmd)
	kit.AddFlag(cmd, &o.users, "users", "number", "20", "number of users", parseUsers)
	kit.AddFlag(cmd, &o.duration, "duration", "duration", "60s", "length of the test; a plain number is seconds",
		parseSeconds)
	kit.AddFlag(cmd, &o.spawnRate, "spawn-rate", "number", "10", "users started a second", parsePositive)
	kit.AddNumber(cmd, &o.workers, "workers", "", "run the users in so many functions under a Locust master", 1,
		maxLoadWorkers)

	o.task.addTo(cmd)
	kit.AddJSON[loadRunJSON](cmd, &o.json, kit.AnObject, nil)

	return cmd
}

func runRun(ctx context.Context, o *runOptions, args []string) error {
	if err := o.choose(args); err != nil {
		return err
	}

	name, opts, err := o.Target()
	if err != nil {
		return err
	}

	if o.workers > 0 || o.task.standalone {
		return kit.StackError(o.runDistributed(ctx, name, opts))
	}

	return kit.StackError(o.runFunction(ctx, name, opts))
}

// runFunction runs the test in one invocation of the worker function.
func (o *runOptions) runFunction(ctx context.Context, name string, opts infra.Options) error {
	worker, err := infra.FindLoadWorker(ctx, name, &opts)
	if err != nil {
		return err
	}
	// The function stops its users when a tenth of its time is left.
	if most := worker.Timeout() * 9 / 10; o.duration > most {
		o.Warn("--duration %v is more than 90 %% of the function's timeout of %v, so the test will end after %v",
			o.duration, worker.Timeout(), most)
	}

	o.Say("Running %s with %s for %v in one function", o.what(), kit.Count(o.users, "user"), o.duration)

	began := time.Now()
	stop := follow(o.accountTest.Stack.Console, func() string {
		return fmt.Sprintf("running: %s of %v", tty.Duration(time.Since(began).Truncate(time.Second)), o.duration)
	})
	defer stop()

	f := &functionTest{Stack: o.Stack, worker: worker, table: name, id: loadtest.NewID()}
	summary, err := f.run(ctx, loadtest.InvocationConfig{
		Locustfile: o.scenario, UserClasses: joinClasses(o.classes), Users: o.users, SpawnRate: o.spawnRate,
		DurationSeconds: o.duration.Seconds(), TestID: f.id,
	})

	stop()
	if err != nil {
		return err
	}

	if ctx.Err() != nil {
		o.Warn("interrupted; these are the results up to then")
	}

	return printSummary(o.accountTest.Stack.Console, summary, o.json)
}

// functionTest is a test in one invocation of the worker function.
type functionTest struct {
	*kit.Stack
	worker    *infra.LoadWorker
	table, id string
}

// stopWithin is how long an interrupted function may take to respond.
const stopWithin = 30 * time.Second

// run invokes the function and returns its statistics. When ctx ends, it asks the
// function to stop, and returns what it has measured.
func (f *functionTest) run(
	ctx context.Context, config loadtest.InvocationConfig,
) (summary loadtest.WorkerSummary, err error) {
	if err := ctx.Err(); err != nil {
		return summary, err
	}

	request, err := json.Marshal(loadtest.Invocation{Config: config})
	if err != nil {
		return summary, err
	}

	type answer struct {
		response []byte
		err      error
	}

	// The request must outlive an interrupt, since the response has the
	// results. A function cannot be cancelled anyway.
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	answers := make(chan answer, 1)
	go func() {
		response, err := f.worker.Run(whole, request)
		answers <- answer{response, err}
	}()

	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		f.Say("stopping the users in the function")
		unmark, err := f.markStopped(whole)
		if err != nil {
			return summary, fmt.Errorf(
				"the function ends by itself after its duration, since it could not be stopped: %w", err,
			)
		}
		// The mark stays until the function has responded, or the function
		// might never see it.
		defer unmark()

		select {
		case got = <-answers:
		case <-time.After(stopWithin):
			return summary, fmt.Errorf("the function has not responded %v after it was stopped", stopWithin)
		}
	}

	if got.err != nil {
		return summary, got.err
	}
	// Code of an older version responds without statistics.
	if err := json.Unmarshal(got.response, &summary); err != nil {
		return summary, errors.New("the response of the function has no statistics; push its code again")
	}

	return summary, nil
}

// markStopped stores the mark in the table that stops the test. The returned
// function removes it.
func (f *functionTest) markStopped(ctx context.Context) (unmark func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)

	repo, err := dynamo.Connect(ctx, f.table, &dynamo.Options{
		Namespace: kit.RegistryNamespace, Region: f.Region, Endpoint: f.Endpoint, Timeout: kit.TableTimeout,
		PurgeWait: -1,
	})
	if err != nil {
		cancel()
		return nil, err
	}

	lim, err := limiter.New(repo, nil)
	if err == nil {
		_, err = lim.RegisterNamespaces(ctx, loadtest.StopNamespace(f.id))
	}

	if err != nil {
		cancel()
		return nil, errors.Join(err, repo.Close())
	}
	// The connection stays open, since unmark needs it.
	cancel()

	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if err := errors.Join(removeNamespace(ctx, lim, loadtest.StopNamespace(f.id)), repo.Close()); err != nil {
			f.Warn("namespace %s stays in the table: %v", loadtest.StopNamespace(f.id), err)
		}
	}, nil
}

// removeNamespace deletes and purges a namespace.
func removeNamespace(ctx context.Context, lim *limiter.RateLimiter, name string) error {
	for n, err := range lim.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if n.Name == name {
			return errors.Join(lim.DeleteNamespace(ctx, name), lim.PurgeNamespace(ctx, n.ID))
		}
	}
	return nil
}

func joinClasses(classes []string) string { return strings.Join(classes, ",") }

// runDistributed runs the test under a Locust master in a task, which it stops on
// every path.
func (o *runOptions) runDistributed(ctx context.Context, name string, opts infra.Options) (err error) {
	if err := infra.CheckTunnel(ctx, o.task.port); err != nil {
		return err
	}
	// A standalone task has one worker of its own.
	workers := max(o.workers, 1)

	settings := o.taskOptions(opts, o.task)
	// Equal bounds keep the number of workers, however many users there are.
	settings.MaxWorkers, settings.MinWorkers = workers, workers

	o.Say("Running %s with %s for %v in %s", o.what(), kit.Count(o.users, "user"), o.duration,
		kit.Count(workers, "worker"))

	task, err := infra.StartLoadTask(ctx, name, settings)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, o.stopTask(ctx, task)) }()

	master, closeTunnel, err := o.openTunnel(ctx, task, o.task.port)
	if err != nil {
		return err
	}
	defer closeTunnel()

	summary, began, err := o.drive(ctx, master, workers)
	if ctx.Err() != nil && began {
		o.Warn("interrupted; these are the results up to then")
	}
	// Without a test there are no results.
	if !began {
		return err
	}

	return errors.Join(printSummary(o.accountTest.Stack.Console, summary, o.json), err)
}

// stopTask stops a task and reports it.
func (a *accountTest) stopTask(ctx context.Context, task *infra.LoadTask) error {
	if err := task.Stop(ctx); err != nil {
		return err
	}
	a.Say("stopped the task")
	return nil
}

// openTunnel forwards a local port to the master and returns it once it can be
// called. An interrupt does not close the tunnel, since the test has to be stopped
// through it.
func (a *accountTest) openTunnel(
	ctx context.Context, task *infra.LoadTask, port int,
) (m loadtest.Master, closeTunnel func(), err error) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))

	ready, failed := make(chan struct{}), make(chan error, 1)
	var wg sync.WaitGroup
	// Forward reports every connection, also a repeated one, and a channel
	// closes only once.
	wg.Go(func() { failed <- task.Forward(whole, port, sync.OnceFunc(func() { close(ready) })) })

	closeTunnel = func() { cancel(); wg.Wait() }

	select {
	case <-ready:
		return loadtest.Master{URL: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, closeTunnel, nil
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}

	closeTunnel()
	return m, nil, err
}

// drive runs the test on the master. It reports whether the test began.
func (o *runOptions) drive(
	ctx context.Context, m loadtest.Master, workers int,
) (summary loadtest.WorkerSummary, began bool, err error) {
	var last atomic.Pointer[loadtest.MasterStats]
	last.Store(&loadtest.MasterStats{})
	// The test starts when its workers have connected, so start is nil until then.
	var start atomic.Pointer[time.Time]

	stop := follow(o.accountTest.Stack.Console, func() string { return driveLine(*last.Load(), workers, start.Load()) })
	defer stop()

	summary, err = loadtest.Drive(ctx, loadtest.DriveOptions{
		MasterTest: loadtest.MasterTest{
			Users: o.users, SpawnRate: o.spawnRate, Duration: o.duration, Classes: o.classes,
		},
		Workers: workers, Interval: o.Poll, Stats: m.Stats, Report: func(s loadtest.MasterStats) { last.Store(&s) },
		Warn: func(err error) { o.Warn("%s", kit.Message(err)) },
		Stop: func(ctx context.Context) error {
			o.Say("stopping the test")
			return m.Stop(ctx)
		},
		Start: func(ctx context.Context, t loadtest.MasterTest) error {
			now := time.Now()
			err := m.Start(ctx, t)
			if began = err == nil; began {
				start.Store(&now)
			}
			return err
		},
	})

	return summary, began, err
}

// driveLine returns the state of a test on one line.
func driveLine(s loadtest.MasterStats, workers int, began *time.Time) string {
	connected := len(s.Connected())

	if began == nil {
		return fmt.Sprintf("%d of %s connected", connected, kit.Count(workers, "worker"))
	}

	total, _ := s.Total()
	return fmt.Sprintf("%s: %s, %s users, %s requests, %s failures, p50 %.0f ms, p99 %.0f ms",
		tty.Duration(time.Since(*began).Truncate(time.Second)),
		kit.Count(connected, "worker"), tty.Number(int64(s.Users)), tty.Number(total.Requests),
		tty.Number(total.Failures), total.P50, total.P99)
}
