package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errLate reports that an engine was not ready in time.
var errLate = errors.New("the engine is not ready in time")

// await repeats look until it reports true or an error. It returns errLate after
// the timeout. From the second look on it shows what it waits for, unless that is
// "".
func (s *Settings) await(
	ctx context.Context, what string, timeout time.Duration, look func(context.Context) (bool, error),
) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	tick := time.NewTicker(2 * poll)
	defer tick.Stop()

	stop := func() {}
	defer func() { stop() }()
	// A wait that ends at once shows no progress.
	for first := true; ; first = false {
		ready, err := look(limited)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			return errLate
		case ready || err != nil:
			return err
		case first && what != "":
			stop = s.progress(what)
		}

		select {
		case <-limited.Done():
		case <-tick.C:
		}
	}
}

// wait waits until the engine in the container is ready. The health check decides,
// or an answer of the engine if the container has none.
func (c *containerSpec) wait(ctx context.Context, d docker, s *Settings, e *Engine, what string) error {
	const timeout = healthRetries * healthInterval

	err := s.await(ctx, what, timeout, func(ctx context.Context) (bool, error) {
		found, err := d.inspect(ctx, c.name)
		switch {
		case err != nil:
			return false, err
		case found == nil || !found.is(e.ContainerID):
			return false, &StartError{Kind: c.kind, Reason: "its container is gone"}
		case found.State.Status == "exited" || found.State.Status == "dead":
			return false, c.failure(ctx, d, "its container ended ("+found.State.Status+")")
		case found.State.Status == paused:
			return false, e.explainPaused()
		case found.health() == "unhealthy" && e.Foreign:
			return false, e.explainUnhealthy()
		case found.health() == "unhealthy":
			return false, c.failure(ctx, d, "its container is unhealthy")
		}
		return found.health() == Healthy || found.health() == "" && answers(ctx, e.Port), nil
	})
	if errors.Is(err, errLate) {
		return c.failure(ctx, d, fmt.Sprintf("it is not ready after %v", timeout))
	}

	return err
}

// failure returns an error with the last lines of the container's log.
func (c *containerSpec) failure(ctx context.Context, d docker, reason string) error {
	var out strings.Builder
	// The reason matters more than its log.
	_ = d.logs(ctx, &out, c.name, shownLines, false)
	return &StartError{c.kind, reason, lines(out.String())}
}

// awaitReady waits until an engine that runs already answers.
func (e *Engine) awaitReady(ctx context.Context, s *Settings) error {
	err := s.await(ctx, "waiting for "+e.Kind.Title(), startTimeout, func(ctx context.Context) (bool, error) {
		state, err := e.Inspect(ctx)
		switch {
		case err != nil:
			return false, err
		case state.Status == paused:
			return false, e.explainPaused()
		case !state.Running:
			return false, fmt.Errorf("%s at port %d has ended; zae-limiter local logs shows why", e.Kind.Title(),
				e.Port)
		case state.Health == "unhealthy":
			return false, e.explainUnhealthy()
		}
		return state.Health == Healthy, nil
	})
	if errors.Is(err, errLate) {
		return fmt.Errorf("%s runs at port %d but is not ready after %v; zae-limiter local logs shows why",
			e.Kind.Title(), e.Port, startTimeout)
	}
	return err
}

// paused is the status of a container that Docker has paused.
const paused = "paused"

func (e *Engine) explainPaused() error {
	return fmt.Errorf("the container %s is paused; continue it with docker unpause %s", e.Container, e.Container)
}

func (e *Engine) explainUnhealthy() error {
	return fmt.Errorf("%s at port %d is unhealthy; zae-limiter local logs shows why, and %s", e.Kind.Title(),
		e.Port, e.Remedy())
}

// Remedy returns half a sentence that names the command that stops the engine.
func (e *Engine) Remedy() string {
	if e.Foreign {
		return fmt.Sprintf("docker rm --force %s removes it", e.Container)
	}
	return fmt.Sprintf("zae-limiter local down --port %d stops it", e.Port)
}
