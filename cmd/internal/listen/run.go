package listen

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Service is a server that Run can run: a Server, or one of another protocol.
type Service interface {
	Serve() error // until Shutdown
	// Shutdown refuses new work, waits for the work under way until ctx ends, and
	// then cuts it off. It returns an error if it had to.
	Shutdown(ctx context.Context) error
}

// RunOptions configures Run. The zero value of a field is its default.
type RunOptions struct {
	// DrainTimeout bounds everything after the end of ctx; default 10 s.
	DrainTimeout time.Duration
	// Quiesce runs before the services shut down, while they still answer, for
	// work that clients finish with another request. It returns when nothing is
	// left to wait for; its context ends after half of DrainTimeout.
	Quiesce func(ctx context.Context)
	// Settle runs after the services have shut down, and ends what they left
	// open. The services have three quarters of DrainTimeout, and Settle runs even
	// if they did not shut down in time; its context ends after nine tenths.
	Settle func(ctx context.Context) error
	// Close runs last, also after a failure, and frees what the services used. Its
	// context ends with DrainTimeout.
	Close func(ctx context.Context) error
}

// DefaultDrainTimeout is the default of RunOptions.DrainTimeout.
const DefaultDrainTimeout = 10 * time.Second

// Run serves until ctx ends or a service fails, and then drains. It returns nil
// if ctx ended and everything came to its end in time.
func Run(ctx context.Context, opts *RunOptions, services ...Service) error {
	if opts == nil {
		opts = &RunOptions{}
	}

	failed := make(chan error, len(services))
	var serving sync.WaitGroup
	for _, s := range services {
		serving.Go(func() {
			if err := s.Serve(); err != nil {
				failed <- err
			}
		})
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	timeout := opts.DrainTimeout
	if timeout <= 0 {
		timeout = DefaultDrainTimeout
	}

	// Each step has a part of the time, counted from the begin: of 10 s,
	// Quiesce has until 5 s, the services until 7.5 s, Settle until 9 s, and
	// Close until 10 s.
	begun := time.Now()
	step := func(part time.Duration, do func(context.Context) error) error {
		if do == nil {
			return nil
		}
		// The context has ended, which is what begins the steps.
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), begun.Add(part))
		defer cancel()
		return do(ctx)
	}

	// Clients of a service that failed cannot make another request to it.
	if opts.Quiesce != nil && err == nil {
		_ = step(timeout/2, func(ctx context.Context) error {
			opts.Quiesce(ctx)
			return nil
		})
	}

	err = errors.Join(err, step(timeout*3/4, func(ctx context.Context) error { return shutdown(ctx, services) }))
	serving.Wait()

	return errors.Join(err, step(timeout*9/10, opts.Settle), step(timeout, opts.Close))
}

// shutdown shuts all services down at the same time.
func shutdown(ctx context.Context, services []Service) error {
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() { errs[i] = s.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
