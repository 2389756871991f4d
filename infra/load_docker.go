package infra

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// docker runs the docker program to build and push one image.
type docker struct {
	image string   // a local name of its own
	tags  []string // names of the image that have to be removed
	host  string   // the registry that it is logged in to, or ""
}

// newDocker returns an error, in one sentence, if docker or its daemon is missing.
func newDocker(ctx context.Context) (*docker, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errors.New("docker builds the image of load tests, and is not installed; install Docker, and try again")
	}
	d := &docker{image: "zae-limiter-load:" + strings.ToLower(rand.Text()[:16])}
	if err := d.run(ctx, "", "version", "--format", "{{.Server.Version}}"); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("docker builds the image of load tests, and does not reach its daemon; start Docker, and try again: %w", err)
	}
	return d, nil
}

// build builds the image from the content in a temporary folder.
func (d *docker) build(ctx context.Context, c *loadContent) (err error) {
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := c.write(folder); err != nil {
		return err
	}
	d.tags = append(d.tags, d.image)
	return d.run(ctx, "", "build", "--platform", "linux/amd64", "--tag", d.image, folder)
}

// push pushes the image to a repository, under each of the tags.
func (d *docker) push(ctx context.Context, repository, user, password string, tags ...string) error {
	d.host, _, _ = strings.Cut(repository, "/")
	if err := d.run(ctx, password, "login", "--username", user, "--password-stdin", d.host); err != nil {
		return err
	}
	for _, tag := range tags {
		name := repository + ":" + tag
		d.tags = append(d.tags, name)
		if err := d.run(ctx, "", "tag", d.image, name); err != nil {
			return err
		}
		if err := d.run(ctx, "", "push", name); err != nil {
			return err
		}
	}
	return nil
}

// close removes the names of the image and the login. Docker keeps its cache of
// layers, so that the next build is quick. It does nothing for a nil docker.
func (d *docker) close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if len(d.tags) > 0 {
		_ = d.run(ctx, "", append([]string{"image", "rm", "--force"}, d.tags...)...) // it may not exist
	}
	if d.host == "" {
		return nil
	}
	return d.run(ctx, "", "logout", d.host)
}

// run runs docker with input on its standard input. Its error has the last lines
// that docker wrote.
func (d *docker) run(ctx context.Context, input string, args ...string) error {
	const grace = 10 * time.Second // docker cancels the work of its daemon
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	cmd.Env = append(os.Environ(), "BUILDX_NO_DEFAULT_ATTESTATIONS=1") // they would count as images of the repository
	cmd.Stdin = strings.NewReader(input)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("docker %s failed: %s", args[0], cmp.Or(lastLines(printed.String()), err.Error()))
}

// lastLines returns the end of a program's output.
func lastLines(printed string) string {
	const maxLines = 8
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-maxLines):], "\n"))
}
