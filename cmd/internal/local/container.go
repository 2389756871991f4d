package local

import (
	"fmt"
	"strconv"
	"time"
)

// Settings of the containers. compose.yaml has the same.
const (
	LocalStackContainer = "zae-limiter-localstack"
	LocalStackImage     = "localstack/localstack:4.14" // later ones want a token
	DynamoDBContainer   = "zae-limiter-dynamodb"
	DynamoDBImage       = "amazon/dynamodb-local:" + dynamoDBVersion

	services = "dynamodb,dynamodbstreams,lambda,cloudformation,logs,iam,cloudwatch,sqs,s3,sts,resourcegroupstaggingapi"
	// LocalStack runs functions in containers of its own.
	dockerSocket   = "/var/run/docker.sock"
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
	options     []string // other options of docker create
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

	// The default port keeps the plain name, under which compose.yaml starts
	// the same container.
	name := DynamoDBContainer
	if port != kind.Port() {
		name += "-" + strconv.Itoa(port)
	}

	return containerSpec{
		folder: f, kind: kind, name: name, image: image, port: port, volume: name,
		mounts: []string{name + ":" + dynamoDBData},
		// A new volume belongs to root, and the image runs as another user.
		options: []string{"--user", "root"},
		command: []string{"-jar", "DynamoDBLocal.jar", "-sharedDb", "-dbPath", dynamoDBData, "-disableTelemetry"},
	}
}

// arguments returns the arguments of docker create. The port is published on the
// loopback address only.
func (c *containerSpec) arguments() []string {
	args := []string{"--name", c.name, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", c.port, c.kind.Port())}
	for _, variable := range c.environment {
		args = append(args, "--env", variable)
	}
	for _, mount := range c.mounts {
		args = append(args, "--volume", mount)
	}
	args = append(args, c.options...)
	return append(append(args, c.image), c.command...)
}

// record returns the record of a container.
func (c *containerSpec) record(d docker, id string) *Engine {
	return &Engine{
		Kind: c.kind, Port: c.port, Started: time.Now().UTC(), Data: c.volume,
		Container: c.name, ContainerID: id, Image: c.image, DockerHost: d.host, Context: d.context,
	}
}

// foreign returns the record of a container that another program started.
func (c *containerSpec) foreign(d docker, found *container) *Engine {
	e := c.record(d, found.ID)
	e.Port, e.Image, e.Data, e.Foreign = found.port(c.kind.Port(), c.port), found.Config.Image, "", true
	return e
}
