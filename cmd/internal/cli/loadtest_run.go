package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

type loadRunOptions struct {
	accountTest
	task           taskFlags
	users, workers int
	spawnRate      float64
	duration       time.Duration
	json           bool
}

func newLoadtestRun(c *kit.Console) *cobra.Command {
	o := &loadRunOptions{
		accountTest: accountTest{Stack: &kit.Stack{Console: c}},
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

			return runLoadRun(cmd.Context(), o, args)
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

func runLoadRun(ctx context.Context, o *loadRunOptions, args []string) error {
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
func (o *loadRunOptions) runFunction(ctx context.Context, name string, opts infra.Options) error {
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
