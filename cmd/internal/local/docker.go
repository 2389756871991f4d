package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// docker runs the docker program, so that contexts, DOCKER_HOST and TLS work as
// the user has set them up. The zero value leaves the choice of the daemon to the
// program.
type docker struct{ host, context string }

// dockerError is an error of the docker program.
type dockerError struct{ command, message string }

func (e *dockerError) Error() string { return "docker " + e.command + ": " + e.message }

func (d docker) command(ctx context.Context, args ...string) *exec.Cmd {
	switch {
	case d.host != "":
		args = append([]string{"--host", d.host}, args...)
	case d.context != "":
		args = append([]string{"--context", d.context}, args...)
	}

	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.WaitDelay = time.Second
	// A DOCKER_HOST in the environment would change the context "default".
	if d.host == "" && d.context != "" {
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, hostVariable+"=") })
	}
	return cmd
}

const hostVariable, contextVariable = "DOCKER_HOST", "DOCKER_CONTEXT"

// pin returns a docker that stays at the daemon that d reaches at the time of
// the call, since a later program may have another environment or context.
func (d docker) pin(ctx context.Context) docker {
	if d.host = cmp.Or(d.host, os.Getenv(hostVariable)); d.host != "" {
		return docker{host: d.host}
	}
	current, err := d.run(ctx, "context", "show")
	// An old docker has no such command.
	if err != nil {
		current = os.Getenv(contextVariable)
	}
	return docker{context: current}
}

// run runs docker and returns its output without surrounding space.
func (d docker) run(ctx context.Context, args ...string) (string, error) {
	cmd := d.command(ctx, args...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages

	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoDocker
	case err != nil:
		text := strings.Join(strings.Fields(messages.String()), " ")
		if text == "" {
			text = err.Error()
		}
		return "", &dockerError{args[0], text}
	}

	return strings.TrimSpace(out.String()), nil
}

var errNoDocker = errors.New("the docker program is not installed")

// reachTimeout is how long a Docker daemon has to answer before it counts as
// unreachable.
const reachTimeout = 10 * time.Second

// reach returns an error if there is no docker program, or no daemon that answers.
func (d docker) reach(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errNoDocker
	}

	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	_, err := d.run(limited, "version", "--format", "{{.Server.Version}}")

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the Docker daemon does not answer within %v", reachTimeout)
	case err != nil:
		return fmt.Errorf("the Docker daemon does not answer (%w)", err)
	}
	return nil
}

// container is the part of Docker's description of a container that is used here.
type container struct {
	ID     string `json:"Id"`
	Config struct {
		Image  string
		Labels map[string]string
	}
	State struct {
		Status  string
		Running bool
		Health  *struct{ Status string }
	}
	NetworkSettings struct {
		Ports map[string][]struct{ HostPort string }
	}
}

// is reports whether the container has this ID. Docker shortens IDs in places.
func (c *container) is(id string) bool {
	return id == "" || c.ID == "" || strings.HasPrefix(c.ID, id) || strings.HasPrefix(id, c.ID)
}

// health returns the status of the health check, or "" if there is none.
func (c *container) health() string {
	if c.State.Health == nil || c.State.Health.Status == "none" {
		return ""
	}
	return c.State.Health.Status
}

// port returns the port of this machine that is bound to a port of the container,
// else fallback.
func (c *container) port(inside, fallback int) int {
	for _, bound := range c.NetworkSettings.Ports[strconv.Itoa(inside)+"/tcp"] {
		if port, err := strconv.Atoi(bound.HostPort); err == nil {
			return port
		}
	}
	return fallback
}

// isMissing reports whether docker found no such container or image.
func isMissing(err error) bool {
	failed, ok := errors.AsType[*dockerError](err)
	text := ""
	if ok {
		text = strings.ToLower(failed.message)
	}
	return strings.Contains(text, "no such container") || strings.Contains(text, "no such image") ||
		strings.Contains(text, "no such object")
}

// inspect returns a container, or nil if there is none with this name.
func (d docker) inspect(ctx context.Context, name string) (*container, error) {
	text, err := d.run(ctx, "inspect", "--type", "container", name)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var found []container
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("docker inspect: the answer is not JSON: %w", err)
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("docker inspect: the answer has %d containers; it must have one", len(found))
	}
	return &found[0], nil
}

func (d docker) hasImage(ctx context.Context, image string) (bool, error) {
	_, err := d.run(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	if isMissing(err) {
		return false, nil
	}
	return err == nil, err
}

// remove stops a container and removes it. A container that is gone meanwhile is a
// success.
func (d docker) remove(ctx context.Context, name string) error {
	_, stopped := d.run(ctx, "stop", "-t", strconv.Itoa(int(grace/time.Second)), name)
	// A container that cannot be stopped is removed by force below.
	if stopped != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := d.run(ctx, "rm", "--force", name)
	if isMissing(err) {
		return nil
	}
	return err
}

func (d docker) removeVolume(ctx context.Context, name string) error {
	_, err := d.run(ctx, "volume", "rm", "--force", name)
	return err
}

// logs copies the log of a container, its last lines and later ones if follow is
// set.
func (d docker) logs(ctx context.Context, out io.Writer, name string, lines int, follow bool) error {
	args := []string{"logs", "--tail", strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}

	cmd := d.command(ctx, append(args, name)...)
	cmd.Stdout, cmd.Stderr = out, out
	// A cancellation kills docker, whose error then says nothing.
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("docker logs %s: %w", name, err)
	}
	return ctx.Err()
}
