package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func joinClasses(classes []string) string { return strings.Join(classes, ",") }

// runDistributed runs the test under a Locust master in a task, which it stops on
// every path.
func (o *loadRunOptions) runDistributed(ctx context.Context, name string, opts infra.Options) (err error) {
	if err := infra.CheckTunnel(ctx, o.task.port); err != nil {
		return err
	}
	// A standalone task has one worker of its own.
	workers := max(o.workers, 1)

	settings := o.taskOptions(opts, o.task)
	// Equal bounds keep the number of workers, however many users there are.
	settings.MaxWorkers, settings.MinWorkers = workers, workers

	o.Say("Running %s with %s for %v in %s", o.what(), kit.Count(o.users, "user"), o.duration, kit.Count(workers, "worker"))

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
func (o *loadRunOptions) drive(
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
