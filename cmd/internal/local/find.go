package local

import (
	"context"
	"errors"
	"fmt"
)

// Find returns the engine at a port, or the only known one if port is 0. Without a
// record it looks for the container of LocalStack, which another program may have
// started. It returns an error that wraps ErrNotRunning if there is none.
func (f *Folder) Find(ctx context.Context, port int, dockerHost string) (*Engine, error) {
	var all []*Engine
	if port == 0 {
		known, err := f.All()
		if err != nil {
			return nil, err
		}
		all = known
	} else {
		e, err := f.Load(port)
		if err != nil && !errors.Is(err, ErrNotRunning) {
			return nil, err
		}
		if err == nil {
			all = []*Engine{e}
		}
	}

	if len(all) > 1 {
		all = preferRunning(ctx, all)
	}
	if len(all) > 0 {
		e, err := only(all)
		if err == nil && dockerHost != "" {
			e.DockerHost, e.Context = dockerHost, ""
		}
		return e, err
	}

	return f.findForeign(ctx, port, dockerHost)
}

// preferRunning returns the engines that run, or all if none does.
func preferRunning(ctx context.Context, all []*Engine) []*Engine {
	var running []*Engine

	for _, e := range all {
		if state, err := e.Inspect(ctx); err == nil && state.Running {
			running = append(running, e)
		}
	}

	// Without a running engine, the caller chooses among those that have ended.
	if len(running) == 0 {
		return all
	}
	return running
}

// findForeign returns the container of LocalStack that another program started.
func (f *Folder) findForeign(ctx context.Context, port int, dockerHost string) (*Engine, error) {
	missing := ErrNotRunning
	if port != 0 {
		missing = fmt.Errorf("%w at port %d", ErrNotRunning, port)
	}

	d := docker{host: dockerHost}
	// Without Docker there is no container, which is no error unless a daemon
	// was named.
	if err := d.reach(ctx); err != nil {
		if dockerHost != "" || ctx.Err() != nil {
			return nil, err
		}
		return nil, missing
	}

	d = d.pin(ctx)

	c := f.newContainer(LocalStack, "", LocalStack.Port())
	found, err := d.inspect(ctx, c.name)
	if err != nil {
		return nil, err
	}

	if found == nil {
		return nil, missing
	}

	e := c.foreign(d, found)
	if port != 0 && e.Port != port {
		return nil, missing
	}

	return e, nil
}
