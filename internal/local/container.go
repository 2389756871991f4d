package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Settings of the containers. compose.yaml has the same.
const (
	LocalStackContainer = "zae-limiter-localstack"
	LocalStackImage     = "localstack/localstack:4.14" // later ones want a token
	DynamoDBContainer   = "zae-limiter-dynamodb"
	DynamoDBImage       = "amazon/dynamodb-local:" + dynamoDBVersion

	services       = "dynamodb,dynamodbstreams,lambda,cloudformation,logs,iam,cloudwatch,sqs,s3,sts,resourcegroupstaggingapi"
	dockerSocket   = "/var/run/docker.sock" // LocalStack runs functions in containers of its own
	localStackData = "/var/lib/localstack"
	dynamoDBData   = "/home/dynamodblocal/data"
	healthCommand  = "curl -fsS http://localhost:4566/_localstack/health"
	healthInterval = 5 * time.Second
	healthTimeout  = 5 * time.Second
	healthRetries  = 30
)

// containerSpec describes a container to run.
type containerSpec struct {
	folder      *Folder
	kind        Kind
	name, image string
	port        int // of this machine
	volume      string
	mounts      []string
	environment []string
	options     []string // other options of docker run
	command     []string
}

// newContainer returns the container of a kind of engine at a port. LocalStack has
// one container, since others look it up by its name.
func (f *Folder) newContainer(kind Kind, image string, port int) containerSpec {
	if kind == LocalStack {
		return containerSpec{
			folder: f, kind: kind, name: LocalStackContainer, image: image, port: port, volume: LocalStackContainer,
			mounts:      []string{dockerSocket + ":" + dockerSocket, LocalStackContainer + ":" + localStackData},
			environment: []string{"SERVICES=" + services, "DEBUG=0", "DYNAMODB_REMOVE_EXPIRED_ITEMS=1"},
			options: []string{
				"--health-cmd", healthCommand, "--health-interval", healthInterval.String(),
				"--health-timeout", healthTimeout.String(), "--health-retries", strconv.Itoa(healthRetries),
			},
		}
	}
	name := DynamoDBContainer
	if port != kind.Port() {
		name += "-" + strconv.Itoa(port)
	}
	return containerSpec{
		folder: f, kind: kind, name: name, image: image, port: port, volume: name,
		mounts:  []string{name + ":" + dynamoDBData},
		options: []string{"--user", "root"}, // a new volume belongs to root
		command: []string{"-jar", "DynamoDBLocal.jar", "-sharedDb", "-dbPath", dynamoDBData, "-disableTelemetry"},
	}
}

// arguments returns the arguments of docker. The port is published on the loopback
// address only.
func (c *containerSpec) arguments() []string {
	args := []string{"run", "--detach", "--name", c.name, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", c.port, c.kind.Port())}
	for _, variable := range c.environment {
		args = append(args, "--env", variable)
	}
	for _, mount := range c.mounts {
		args = append(args, "--volume", mount)
	}
	args = append(args, c.options...)
	return append(append(args, c.image), c.command...)
}

// start runs the container, or finds one that runs already.
func (c *containerSpec) start(ctx context.Context, s *Settings) (*Engine, error) {
	d := docker{s.DockerHost}
	found, err := d.inspect(ctx, c.name)
	if err != nil {
		return nil, err
	}
	if found != nil && (found.State.Running || found.State.Status == "running") {
		return c.adopt(ctx, d, found)
	}
	if found != nil {
		if err := d.remove(ctx, c.name); err != nil {
			return nil, err
		}
	}
	if err := c.pull(ctx, d, s); err != nil {
		return nil, err
	}
	id, err := d.run(ctx, c.arguments()...)
	if err != nil {
		return nil, errors.Join(c.explain(err), c.abandon(ctx, d))
	}
	e := c.record(d, id)
	stop := s.progress("starting " + c.kind.Title())
	defer stop()
	// The record comes first, so that a killed program leaves no unknown engine.
	if err = c.save(e); err == nil {
		err = c.wait(ctx, d, e)
	}
	if err != nil {
		return nil, errors.Join(err, c.abandon(ctx, d), c.folder.forget(e.Port, false))
	}
	return e, nil
}

// adopt returns the record of a container that runs already. It keeps the record
// of an earlier call; without one, another program started the container.
func (c *containerSpec) adopt(ctx context.Context, d docker, found *container) (*Engine, error) {
	port := found.port(c.kind.Port(), c.port)
	if e, err := c.folder.Load(port); err == nil && e.Container == c.name && found.is(e.ContainerID) {
		return e, c.wait(ctx, d, e)
	}
	e := c.foreign(d, found)
	if err := c.wait(ctx, d, e); err != nil {
		return nil, err
	}
	return e, c.save(e)
}

// save writes the record of the container, in place of those of containers that
// had its name before.
func (c *containerSpec) save(e *Engine) error {
	all, err := c.folder.All()
	for _, other := range all {
		if other.Container == c.name && other.Port != e.Port {
			err = errors.Join(err, c.folder.forget(other.Port, true))
		}
	}
	return errors.Join(err, c.folder.Save(e))
}

// foreign returns the record of a container that another program started.
func (c *containerSpec) foreign(d docker, found *container) *Engine {
	e := c.record(d, found.ID)
	e.Port, e.Image, e.Data, e.Foreign = found.port(c.kind.Port(), c.port), found.Config.Image, "", true
	return e
}

// record returns the record of a container. It names the daemon, since a later
// program may have another environment.
func (c *containerSpec) record(d docker, id string) *Engine {
	return &Engine{
		Kind: c.kind, Port: c.port, Started: time.Now().UTC(), Data: c.volume,
		Container: c.name, ContainerID: id, Image: c.image, DockerHost: cmp.Or(d.host, os.Getenv("DOCKER_HOST")),
	}
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
func (c *containerSpec) abandon(ctx context.Context, d docker) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*grace)
	defer cancel()
	if _, err := d.run(ctx, "rm", "--force", c.name); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

// explain turns an error of docker run into a StartError.
func (c *containerSpec) explain(err error) error {
	failed, ok := errors.AsType[*dockerError](err)
	if !ok {
		return err
	}
	reason := failed.Error()
	if text := strings.ToLower(failed.message); strings.Contains(text, "port is already allocated") || strings.Contains(text, "address already in use") {
		reason = portInUse(c.port)
	}
	return &StartError{Kind: c.kind, Reason: reason}
}

func portInUse(port int) string {
	return fmt.Sprintf("port %d is in use by another program; stop that program, or choose another port with --port", port)
}

// wait waits until the engine in the container is ready. The health check decides,
// or an answer of the engine if the container has none.
func (c *containerSpec) wait(ctx context.Context, d docker, e *Engine) error {
	limited, cancel := context.WithTimeout(ctx, healthRetries*healthInterval)
	defer cancel()
	tick := time.NewTicker(2 * poll)
	defer tick.Stop()
	for {
		found, err := d.inspect(limited, c.name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			return c.failure(ctx, d, fmt.Sprintf("it is not ready after %v", healthRetries*healthInterval))
		case err != nil:
			return err
		case found == nil:
			return &StartError{Kind: c.kind, Reason: "its container is gone"}
		case found.State.Status == "exited" || found.State.Status == "dead":
			return c.failure(ctx, d, "its container ended ("+found.State.Status+")")
		case found.health() == "unhealthy":
			return c.failure(ctx, d, "its container is unhealthy")
		case found.health() == Healthy, found.health() == "" && answers(limited, e.Port):
			return nil
		}
		select {
		case <-limited.Done():
		case <-tick.C:
		}
	}
}

// failure returns an error with the last lines of the container's log.
func (c *containerSpec) failure(ctx context.Context, d docker, reason string) error {
	var out strings.Builder
	_ = d.logs(ctx, &out, c.name, shownLines, false) // the reason matters more
	return &StartError{c.kind, reason, lines(out.String())}
}
