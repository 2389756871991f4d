package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The label of the containers that this package makes.
const labelName, labelValue = "zae-limiter", "local"

// start runs the container, or finds one that runs already.
func (c *containerSpec) start(ctx context.Context, s *Settings) (*Engine, error) {
	d := docker{host: s.DockerHost}.pin(ctx)

	found, err := d.inspect(ctx, c.name)
	if err != nil {
		return nil, err
	}

	if found != nil && (found.State.Running || found.State.Status == "running") {
		return c.adopt(ctx, d, s, found)
	}

	if found != nil {
		if err := c.removeStopped(ctx, d, found); err != nil {
			return nil, err
		}
	}

	if err := c.pull(ctx, d, s); err != nil {
		return nil, err
	}

	id, err := c.create(ctx, d)
	if err != nil {
		return nil, c.explain(err)
	}

	stop := s.progress("starting " + c.kind.Title())
	defer stop()

	if _, err := d.run(ctx, "start", id); err != nil {
		return nil, errors.Join(c.explain(err), abandon(ctx, d, id))
	}

	e := c.record(d, id)
	// The record comes first, so that a killed program leaves no unknown engine.
	if err = c.save(ctx, e); err == nil {
		err = c.wait(ctx, d, s, e, "")
	}

	if err != nil {
		return nil, errors.Join(err, abandon(ctx, d, id), c.folder.forget(e.Port, false))
	}

	return e, nil
}

// create makes the container and returns its ID. It does not stop early, since a
// container without a known ID could not be removed.
func (c *containerSpec) create(ctx context.Context, d docker) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*grace)
	defer cancel()
	return d.run(ctx, append([]string{"create", "--label", labelName + "=" + labelValue}, c.arguments()...)...)
}

// removeStopped removes a container of an earlier call that has ended. It refuses
// to remove one of another program.
func (c *containerSpec) removeStopped(ctx context.Context, d docker, found *container) error {
	// A record proves that an earlier call made the container, also without the
	// label.
	ours := found.Config.Labels[labelName] == labelValue
	all, err := c.folder.All()
	for _, e := range all {
		ours = ours || !e.Foreign && e.ContainerID != "" && found.is(e.ContainerID)
	}

	switch {
	case ours:
		return d.remove(ctx, found.ID)
	case err != nil:
		return err
	}

	return &StartError{Kind: c.kind, Reason: fmt.Sprintf("another program made the container %s, which is "+
		"not running (%s); remove it with docker rm %s",
		c.name, found.State.Status, c.name)}
}

// adopt returns the record of a container that runs already. It keeps the record
// of an earlier call; without one, another program started the container.
func (c *containerSpec) adopt(ctx context.Context, d docker, s *Settings, found *container) (*Engine, error) {
	port, waiting := found.port(c.kind.Port(), c.port), "waiting for "+c.kind.Title()
	if e, err := c.folder.Load(port); err == nil && e.Container == c.name && found.is(e.ContainerID) {
		return e, c.wait(ctx, d, s, e, waiting)
	}
	e := c.foreign(d, found)
	if err := c.wait(ctx, d, s, e, waiting); err != nil {
		return nil, err
	}
	return e, c.save(ctx, e)
}

// save writes the record of the container, in place of those of containers that
// had its name before.
func (c *containerSpec) save(ctx context.Context, e *Engine) error {
	all, err := c.folder.All()
	// A record at another port is out of date, since the daemon has one
	// container of each name.
	for _, other := range all {
		if other.Container == c.name && other.Port != e.Port && other.docker() == e.docker() {
			err = errors.Join(err, c.folder.forget(other.Port, true))
		}
	}
	return errors.Join(err, c.folder.replace(ctx, e))
}

func (c *containerSpec) pull(ctx context.Context, d docker, s *Settings) error {
	if has, err := d.hasImage(ctx, c.image); has || err != nil {
		return err
	}
	stop := s.progress("pulling the image " + c.image)
	defer stop()
	if _, err := d.run(ctx, "pull", "--quiet", c.image); err != nil {
		return fmt.Errorf("the image %s cannot be pulled: %w", c.image, err)
	}
	return nil
}

// abandon removes a container that failed to start, even if ctx has ended.
func abandon(ctx context.Context, d docker, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*grace)
	defer cancel()
	if _, err := d.run(ctx, "rm", "--force", id); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

// explain turns an error of docker into a StartError.
func (c *containerSpec) explain(err error) error {
	failed, ok := errors.AsType[*dockerError](err)
	if !ok {
		return err
	}

	reason := failed.Error()

	switch text := strings.ToLower(failed.message); {
	// Windows has the last of these messages.
	case strings.Contains(text, "port is already allocated"), strings.Contains(text, "address already in use"),
		strings.Contains(text, "only one usage of each socket address"):
		reason = portInUse(c.port)
	case strings.Contains(text, "conflict") && strings.Contains(text, "container name"):
		reason = fmt.Sprintf(
			"another program has just made a container with the name %s; run this again to use it, or remove "+
				"it with docker rm %s",
			c.name, c.name,
		)
	}

	return &StartError{Kind: c.kind, Reason: reason}
}

func portInUse(port int) string {
	return fmt.Sprintf("port %d is in use by another program; stop that program, or choose another port with --port",
		port)
}
