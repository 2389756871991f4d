package loadtest

import (
	"context"
	"errors"
	"time"
)

// OrchestrateOptions configures Orchestrate.
type OrchestrateOptions struct {
	OrchestratorOptions
	// Interval is the time between two polls; default 5 s.
	Interval time.Duration
	// Stats returns the statistics of the master.
	Stats func(context.Context) (MasterStats, error)
	// Invoke starts a worker, which has to connect before the deadline, and
	// returns its ID, or "" if that is unknown. It does not wait for the worker.
	Invoke func(ctx context.Context, deadline time.Time) (id string, err error)
	// Report, if not nil, is called with each decision, and with the error of the
	// poll or of an invocation.
	Report func(Decision, error)
}

// Orchestrate keeps the workers of a distributed test running until no test has
// run for the idle timeout, and returns nil then, or until ctx ends. Errors of the
// master and of invocations do not end it: the next poll tries again.
func Orchestrate(ctx context.Context, opts OrchestrateOptions) error {
	o, err := NewOrchestrator(&opts.OrchestratorOptions)
	if err != nil {
		return err
	}

	if opts.Interval < 0 {
		return invalid("interval", opts.Interval.String(), "must not be negative")
	}
	setDefault(&opts.Interval, 5*time.Second)
	if opts.Report == nil {
		opts.Report = func(Decision, error) {}
	}

	tick := time.NewTicker(opts.Interval)
	defer tick.Stop()
	for {
		if d := opts.poll(ctx, o); d.Done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// poll makes a decision and carries it out.
func (opts *OrchestrateOptions) poll(ctx context.Context, o *Orchestrator) Decision {
	var master *MasterStats
	stats, err := opts.Stats(ctx)
	if err == nil {
		master = &stats
	}

	d := o.Poll(time.Now(), master)
	// A poll that ctx cancelled looks like a lost master, whose workers must
	// not be replaced.
	if d.Done || ctx.Err() != nil {
		opts.Report(d, err)
		return d
	}

	for range d.Invoke {
		// The worker has to begin before the same deadline until which Invoked
		// waits for it, so it never joins beside its successor.
		now := time.Now()
		id, failed := opts.Invoke(ctx, now.Add(o.opts.PendingTimeout))
		if failed != nil {
			err = errors.Join(err, failed)
			break
		}
		o.Invoked(now, id)
	}

	opts.Report(d, err)
	return d
}
