package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		err = e.awaitReady(ctx)
		return e, false, err
	}
	engine, err := f.choose(ctx, s)
	if err != nil {
		return nil, false, err
	}
	before := time.Now().UTC()
	if e, err = engine.start(ctx, s); err != nil {
		return nil, false, err
	}
	return e, !e.Foreign && !e.Started.Before(before), nil
}

// findRunning returns the running engine that the settings ask for, or nil.
func (f *Folder) findRunning(ctx context.Context, s *Settings) (*Engine, error) {
	if s.Port != 0 {
		return f.runningAt(ctx, s)
	}
	all, err := f.All()
	if err != nil {
		return nil, err
	}
	var running []*Engine
	for _, e := range all {
		// An unreachable daemon runs nothing that this machine can use.
		if state, err := e.Inspect(ctx); err == nil && state.Running && (s.Kind == "" || s.Kind == e.Kind) {
			running = append(running, e)
		}
	}
	if len(running) > 0 {
		return only(running)
	}
	return nil, ctx.Err()
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
		return nil, fmt.Errorf("%s is running at port %d, not %s; stop it with zae-limiter local down --port %d, or choose another port with --port",
			e.Kind.Title(), e.Port, s.Kind.Title(), e.Port)
	case err == nil && state.Running:
		return e, nil
	case err == nil:
		return nil, f.Down(ctx, e, false)
	}
	return nil, nil // its daemon is unreachable
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

// awaitReady waits until an engine that runs already answers.
func (e *Engine) awaitReady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		state, err := e.Inspect(limited)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			return fmt.Errorf("%s runs at port %d but is not ready after %v; zae-limiter local logs shows why", e.Kind.Title(), e.Port, startTimeout)
		case err != nil:
			return err
		case !state.Running:
			return fmt.Errorf("%s at port %d has ended; zae-limiter local logs shows why", e.Kind.Title(), e.Port)
		case state.Health == Healthy:
			return nil
		case state.Health == "unhealthy":
			return fmt.Errorf("%s at port %d is unhealthy; zae-limiter local logs shows why, and local down stops it", e.Kind.Title(), e.Port)
		}
		select {
		case <-limited.Done():
		case <-tick.C:
		}
	}
}

// choose returns the engine to start: as the settings say, else the
// first that can run.
func (f *Folder) choose(ctx context.Context, s *Settings) (starter, error) {
	if s.Jar != "" {
		return f.chooseJava(ctx, s, nil)
	}
	unreachable := docker{s.DockerHost}.reach(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unreachable == nil && s.Kind == DynamoDB:
		c := f.newContainer(DynamoDB, cmp.Or(s.Image, DynamoDBImage), cmp.Or(s.Port, DynamoDB.Port()))
		return &c, nil
	case unreachable == nil:
		c := f.newContainer(LocalStack, cmp.Or(s.Image, LocalStackImage), cmp.Or(s.Port, LocalStack.Port()))
		return &c, nil
	case s.Kind == LocalStack:
		return nil, fmt.Errorf("LocalStack needs Docker: %w; install and start Docker, or use --engine dynamodb", unreachable)
	case s.Image != "" || s.DockerHost != "":
		return nil, fmt.Errorf("--image and --docker-host need Docker: %w; install and start Docker, or leave them out", unreachable)
	}
	return f.chooseJava(ctx, s, unreachable)
}

// chooseJava returns DynamoDB Local as a Java process. The error, if not nil, says
// why Docker cannot run it.
func (f *Folder) chooseJava(ctx context.Context, s *Settings, unreachable error) (starter, error) {
	java, err := findJava()
	if err == nil && s.Jar == "" {
		err = canFetch()
	}
	switch {
	case err != nil && s.Jar != "":
		return nil, fmt.Errorf("--jar needs Java: %w; install Java 17 or newer", err)
	case errors.Is(err, errNoMaven):
		return nil, fmt.Errorf("no engine can run here: %w, and Java is, but %w, which fetches DynamoDB Local; install and start Docker, or install Maven, or download DynamoDB Local and give its jar with --jar",
			unreachable, err)
	case err != nil:
		return nil, fmt.Errorf("no engine can run here: %w, and %w; install and start Docker, or install a JDK (17 or newer) and Maven", unreachable, err)
	case unreachable != nil:
		s.say("using DynamoDB Local with Java, since " + unreachable.Error())
	}
	j := &javaEngine{folder: f, java: java, jar: s.Jar, port: cmp.Or(s.Port, DynamoDB.Port())}
	j.works, j.compiles = probeJava(ctx, java)
	return j, nil
}

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
			e.DockerHost = dockerHost
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
	d := docker{dockerHost}
	if err := d.reach(ctx); err != nil {
		if dockerHost != "" || ctx.Err() != nil {
			return nil, err
		}
		return nil, missing
	}
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
