package infra

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// docker runs the docker program to build and push one image.
type docker struct {
	image string   // a local name of its own
	tags  []string // names of the image that have to be removed
}

// newDocker returns an error, in one sentence, if docker or its daemon is missing.
func newDocker(ctx context.Context) (*docker, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errors.New(
			"docker builds the image of load tests, and is not installed; install Docker, and try again",
		)
	}

	// The name is random, so that calls at the same time do not replace the
	// image of each other.
	d := &docker{image: "zae-limiter-load:" + strings.ToLower(rand.Text()[:16])}
	// Only a command that needs the daemon finds out whether it runs.
	if err := d.run(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf(
			"docker builds the image of load tests, and does not reach its daemon; start Docker, and try again: %w",
			err,
		)
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

	// A build that fails may leave its image, so close removes the name in any
	// case.
	d.tags = append(d.tags, d.image)

	return d.run(ctx, "build", "--platform", "linux/amd64", "--tag", d.image, folder)
}

// push pushes the image to a repository, under each of the tags.
func (d *docker) push(ctx context.Context, repository, user, password string, tags ...string) (err error) {
	host, _, _ := strings.Cut(repository, "/")
	// A login in the user's own settings would replace theirs, and could stay
	// after an interruption.
	login, err := newDockerLogin(host, user, password)
	if err != nil {
		return fmt.Errorf("prepare the login of docker: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(login)) }()

	for _, tag := range tags {
		name := repository + ":" + tag
		d.tags = append(d.tags, name)

		if err := d.run(ctx, "tag", d.image, name); err != nil {
			return err
		}

		if err := d.runWith(ctx, []string{"DOCKER_CONFIG=" + login}, "push", name); err != nil {
			return err
		}
	}
	return nil
}

// close removes the names of the image. Docker keeps its cache of layers, so that
// the next build is quick. It does nothing for a nil docker.
func (d *docker) close(ctx context.Context) {
	if d == nil || len(d.tags) == 0 {
		return
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	// The image may not exist.
	_ = d.run(ctx, append([]string{"image", "rm", "--force"}, d.tags...)...)
}

// run runs docker. Its error has the last lines that docker wrote.
func (d *docker) run(ctx context.Context, args ...string) error { return d.runWith(ctx, nil, args...) }

// runWith runs docker with more variables in its environment.
func (d *docker) runWith(ctx context.Context, variables []string, args ...string) error {
	// Docker needs the time to cancel the work of its daemon.
	const grace = 10 * time.Second

	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	// Attestations would count as images of the repository.
	cmd.Env = append(append(os.Environ(), "BUILDX_NO_DEFAULT_ATTESTATIONS=1"), variables...)

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

// newDockerLogin returns a temporary folder with the settings of docker for one
// registry. They have the context of the user, so that docker calls the same
// daemon, but neither logins nor credential helpers: those of the user stay as
// they are. The caller removes the folder.
func newDockerLogin(host, user, password string) (folder string, err error) {
	own := dockerFolder()
	settings := map[string]json.RawMessage{}
	if content, err := os.ReadFile(filepath.Join(own, "config.json")); err == nil &&
		json.Unmarshal(content, &settings) != nil {
		// Docker ignores invalid settings, too.
		settings = map[string]json.RawMessage{}
	}

	// A helper would store the password of the registry among the user's own.
	delete(settings, "credsStore")
	delete(settings, "credHelpers")

	type login struct {
		Auth string `json:"auth"`
	}
	settings["auths"], err = json.Marshal(map[string]login{host: {
		base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
	}})
	if err != nil {
		return "", err
	}

	content, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}

	if folder, err = os.MkdirTemp("", "zae-limiter-"); err != nil {
		return "", err
	}

	err = errors.Join(os.WriteFile(filepath.Join(folder, "config.json"), content, 0o600), copyConnection(folder, own))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}

	return folder, nil
}

// dockerFolder returns the folder with the user's settings of docker, or "" if
// there is no home.
func dockerFolder() string {
	if folder := os.Getenv("DOCKER_CONFIG"); folder != "" {
		return folder
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// copyConnection copies what docker needs to reach its daemon: contexts, and the
// certificates of $DOCKER_HOST.
func copyConnection(to, from string) error {
	contexts := filepath.Join(from, "contexts")
	if isFolder(contexts) {
		if err := os.CopyFS(filepath.Join(to, "contexts"), os.DirFS(contexts)); err != nil {
			return err
		}
	}
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
