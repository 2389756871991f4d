package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// DriveOptions configures Drive. Stats, Start and Stop call the master, as the
// methods of [Master] do.
type DriveOptions struct {
	MasterTest
	Workers int // that have to connect before the test starts
	Stats   func(context.Context) (MasterStats, error)
	Start   func(context.Context, MasterTest) error
	Stop    func(context.Context) error
	// Interval is the time between two polls; default 5 s.
	Interval time.Duration
	// Report, if not nil, is called with each response of the master.
	Report func(MasterStats)
	// Warn, if not nil, is called if a test cannot be stopped, so that the summary
	// may lack its last requests.
	Warn func(error)
}

// Timing of Drive.
const (
	workersWithin = 5 * time.Minute
	// driveReserve is added to the duration and to the time in which all users
	// start.
	driveReserve = 30 * time.Second
	// maxPolls is how many polls in a row may fail.
	maxPolls = 3
	// A master responds to Stop after its workers have stopped and the data of the
	// test are removed, which may take 2 minutes.
	stopWithin = 150 * time.Second
	// lastWithin limits the wait for the final statistics of a stopped test.
	lastWithin = 30 * time.Second
	// statsAge exceeds the 2 s for which a master repeats its statistics.
	statsAge = 2500 * time.Millisecond
)

// Drive runs a test on a Locust master: it waits for the workers, starts the test
// and waits for its end. When ctx ends, Drive stops the test and returns a nil
// error. With an error after the start of the test, the summary has what was
// measured up to then.
func Drive(ctx context.Context, opts DriveOptions) (WorkerSummary, error) {
	if opts.Report == nil {
		opts.Report = func(MasterStats) {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	opts.Interval = cmp.Or(opts.Interval, 5*time.Second)

	if err := opts.waitForWorkers(ctx); err != nil {
		return WorkerSummary{}, err
	}

	began := time.Now()
	if err := opts.Start(ctx, opts.MasterTest); err != nil {
		return WorkerSummary{}, err
	}

	last, err := opts.follow(ctx, began)
	// The poll that sees the end comes after it, and rates refer to the time of
	// the load.
	elapsed := min(time.Since(began), opts.Duration)

	if ctx.Err() != nil || err != nil {
		last = opts.stop(ctx, last)
	}
	if ctx.Err() != nil {
		err = nil
	}

	return last.Summary(elapsed), err
}

// waitForWorkers waits until enough workers have connected.
func (opts *DriveOptions) waitForWorkers(ctx context.Context) error {
	deadline := time.Now().Add(workersWithin)
	for {
		stats, err := opts.Stats(ctx)
		connected := len(stats.Connected())
		// A master that is still starting may fail, so only the deadline ends
		// the wait.
		if err == nil {
			opts.Report(stats)
			if connected >= opts.Workers {
				return nil
			}
		}

		if !time.Now().Before(deadline) {
			return errors.Join(
				fmt.Errorf("%d of %d workers have connected after %v; the logs of the worker function say why",
					connected, opts.Workers, workersWithin),
				err,
			)
		}

		if err := pause.For(ctx, opts.Interval); err != nil {
			return err
		}
	}
}

// follow polls the master until the test has ended. It returns the last response.
func (opts *DriveOptions) follow(ctx context.Context, began time.Time) (last MasterStats, err error) {
	limit := opts.Duration + time.Duration(float64(opts.Users)/opts.SpawnRate*float64(time.Second)) + driveReserve
	ended := false

	for failures := 0; ; {
		if err := pause.For(ctx, opts.Interval); err != nil {
			return last, err
		}

		stats, err := opts.Stats(ctx)
		switch {
		// A poll that ctx cancelled does not count as a failure of the master.
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil:
			if failures++; failures == maxPolls {
				return last, fmt.Errorf("the master has not responded %d times: %w", maxPolls, err)
			}
			continue
		// One poll sees the end. The next has the last reports of the workers.
		case ended:
			opts.Report(stats)
			return stats, nil
		}

		last, failures = stats, 0
		opts.Report(stats)
		ended = stats.State == "stopped"

		if !ended && time.Since(began) >= limit {
			return last, fmt.Errorf("the test has not ended after %v; its state is %s", limit, stats.State)
		}
	}
}

// stop stops the test, even after ctx has ended, and returns the last response of
// the master.
func (opts *DriveOptions) stop(ctx context.Context, last MasterStats) MasterStats {
	// The master has to stop the test even if ctx has ended.
	whole := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(whole, stopWithin)
	defer cancel()

	if err := opts.Stop(ctx); err != nil {
		opts.Warn(fmt.Errorf("the master did not stop the test, so its last requests are not counted: %w", err))
		return last
	}

	ctx, cancelLast := context.WithTimeout(whole, lastWithin)
	defer cancelLast()

	last, err := opts.final(ctx, last)
	if err != nil {
		opts.Warn(fmt.Errorf("the master has no final statistics, so the last requests are not counted: %w", err))
	}
	return last
}

// final polls the master until it reports that the test is stopped. It pauses
// first, since the master may repeat an older response.
func (opts *DriveOptions) final(ctx context.Context, last MasterStats) (MasterStats, error) {
	for failures := 0; ; {
		if err := pause.For(ctx, min(opts.Interval, statsAge)); err != nil {
			return last, fmt.Errorf("the state of the test is %s after %v", last.State, lastWithin)
		}

		stats, err := opts.Stats(ctx)
		if err != nil {
			if failures++; failures == maxPolls {
				return last, err
			}
			continue
		}

		last, failures = stats, 0
		opts.Report(stats)
		if stats.State == "stopped" {
			return stats, nil
		}
	}
}
