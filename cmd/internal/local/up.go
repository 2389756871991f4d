package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Settings configures Up.
type Settings struct {
	Kind       Kind   // default: the first that can run
	Port       int    // default: of the running engine, else the port of the kind
	Image      string // of the container; default: of the kind
	DockerHost string // default: the choice of the docker program
	Jar        string // of DynamoDB Local; default: fetched by Maven

	// Say, Warn and Progress, if not nil, report what Up does. Progress is called
	// before an action that may take long, and the returned function after it.
	Say, Warn func(text string)
	Progress  func(text string) (stop func())
}

func (s *Settings) say(text string) {
	if s.Say != nil {
		s.Say(text)
	}
}

func (s *Settings) warn(text string) {
	if s.Warn != nil {
		s.Warn(text)
	}
}

func (s *Settings) progress(text string) (stop func()) {
	if s.Progress == nil {
		return func() {}
	}
	return s.Progress(text)
}

// starter starts an engine.
type starter interface {
	start(context.Context, *Settings) (*Engine, error)
}

// Up returns a running engine that is ready, and reports whether this call started
// it. If it fails, nothing that it started is left running. The caller holds the
// lock.
func (f *Folder) Up(ctx context.Context, s *Settings) (e *Engine, started bool, err error) {
	if e, err = f.findRunning(ctx, s); err != nil {
		return nil, false, err
	}

	if e != nil {
		err = e.awaitReady(ctx, s)
		return e, false, err
	}

	engine, err := f.choose(ctx, s)
	if err != nil {
		return nil, false, err
	}

	// The engine may be one that an earlier call started, and its record then
	// has an earlier time.
	before := time.Now().UTC()
	if e, err = engine.start(ctx, s); err != nil {
		return nil, false, err
	}

	return e, !e.Foreign && !e.Started.Before(before), nil
}

// findRunning returns the running engine that the settings ask for, or nil. It
// cleans up after those that have ended if none runs.
func (f *Folder) findRunning(ctx context.Context, s *Settings) (*Engine, error) {
	if s.Port != 0 {
		return f.runningAt(ctx, s)
	}

	all, err := f.All()
	if err != nil {
		return nil, err
	}

	var running, ended []*Engine
	for _, e := range all {
		state, err := e.Inspect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		// An unreachable daemon runs nothing that this machine can use.
		case err != nil:
		case !state.Running:
			ended = append(ended, e)
		case s.Kind == "" || s.Kind == e.Kind:
			running = append(running, e)
		}
	}

	if len(running) > 0 {
		return only(running)
	}
	for _, e := range ended {
		if err := f.cleanUp(ctx, s, e); err != nil {
			return nil, err
		}
	}

	return nil, nil
}

// cleanUp stops what an engine that has ended left running, and says so.
func (f *Folder) cleanUp(ctx context.Context, s *Settings, e *Engine) error {
	for _, table := range slices.Sorted(maps.Keys(e.Aggregators)) {
		if p := e.Aggregators[table]; p.Alive() {
			s.say(fmt.Sprintf("stopping the aggregator of table %s (process %d), since %s at %s has ended", table,
				p.PID, e.Kind.Title(), e.Endpoint()))
		}
	}
	return f.Down(ctx, e, false)
}

// runningAt returns the running engine at the port of the settings, or nil. It
// cleans up after one that has ended.
func (f *Folder) runningAt(ctx context.Context, s *Settings) (*Engine, error) {
	e, err := f.Load(s.Port)
	if errors.Is(err, ErrNotRunning) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	state, err := e.Inspect(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && state.Running && s.Kind != "" && s.Kind != e.Kind:
		return nil, fmt.Errorf("%s is running at port %d, not %s; stop it with zae-limiter local down --port "+
			"%d, or choose another port with --port",
			e.Kind.Title(), e.Port, s.Kind.Title(), e.Port)
	case err == nil && state.Running:
		return e, nil
	case err == nil:
		return nil, f.cleanUp(ctx, s, e)
	}

	// An unreachable daemon runs nothing at this port that this machine can
	// use.
	return nil, nil
}

// only returns the one engine of a list, or an AmbiguousError.
func only(all []*Engine) (*Engine, error) {
	if len(all) == 1 {
		return all[0], nil
	}
	ambiguous := &AmbiguousError{}
	for _, e := range all {
		ambiguous.Ports = append(ambiguous.Ports, e.Port)
	}
	return nil, ambiguous
}
