package infra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/zeroae/zae-limiter-go/internal/pause"
)

var (
	errNoToolchain = errors.New("the go command is not installed")
	errNoSource    = errors.New("there is no source to build from, because this program is not a release")
)

// toolchain runs the go command. The zero value runs it as the user would.
type toolchain struct {
	dir    string   // working directory; default: that of the process
	origin string   // folder in which this program was compiled, or ""
	env    []string // added to the environment of the process
}

// goArchitectures maps architectures to their names in Go.
var goArchitectures = map[string]string{ARM64: "arm64", X8664: "amd64"}

// planBuild returns the source that would be built.
func (t toolchain) planBuild(ctx context.Context, version string) (string, error) {
	source, _, err := t.source(ctx, version)
	return "to be built from " + source, err
}

// compile compiles a command. It returns the executable and where it is from.
func compile(
	ctx context.Context, t toolchain, o PackageOptions, command string,
) (content []byte, from string, err error) {
	source, workspace, err := t.source(ctx, o.Version)
	if err != nil {
		return nil, "", err
	}

	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	output := filepath.Join(folder, bootstrap)

	// Settings of the user must not change the code: the same source gives the
	// same bytes on every machine, and GOARM64 and GOAMD64 name the oldest
	// processors that functions run on.
	compile := toolchain{dir: source, env: append([]string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + goArchitectures[o.Architecture], "GOARM64=v8.0", "GOAMD64=v1",
		"GOEXPERIMENT=", "GOFLAGS=", "GOWORK=" + workspace,
	}, t.env...)}

	done := func(error) {}
	if o.Building != nil {
		done = o.Building(o.Architecture)
	}

	flags := "-s -w -X " + commandModule + "/internal/cli.version=" + strings.TrimPrefix(o.Version, "v")
	_, err = compile.run(ctx, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", output, "./"+command)
	// The caller ends its display of progress here, also after a failure.
	done(err)
	if err != nil {
		return nil, "", err
	}

	if content, err = os.ReadFile(output); err != nil {
		return nil, "", err
	}

	if err := checkProgram(content, o.Architecture); err != nil {
		return nil, "", fmt.Errorf("the program built from %s cannot run as a function: %w", source, err)
	}

	return content, "built from " + source, nil
}

// source returns the folder of the programs' module at a version, and the setting of
// GOWORK to build it with. A release comes from the module cache, so that a checkout in
// the working directory does not replace it; other versions come from a checkout.
func (t toolchain) source(ctx context.Context, version string) (dir, workspace string, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", "", errNoToolchain
	}

	// Build metadata marks a version that was not published, such as one with
	// local changes.
	found := semverOf(version)
	isRelease := found != "" && semver.Build(found) == ""
	if !isRelease || semver.Prerelease(found) != "" {
		if dir := t.checkout(ctx); dir != "" {
			// The workspace of the checkout has the modules beside this one.
			return dir, "", nil
		}
	}

	if !isRelease {
		return "", "", errNoSource
	}

	out, err := t.run(ctx, "mod", "download", "-json", commandModule+"@"+found)
	// With -json, the go command reports a failed download on its standard
	// output.
	var downloaded struct{ Dir, Error string }
	if json.Unmarshal([]byte(out), &downloaded) == nil && downloaded.Error != "" {
		return "", "", fmt.Errorf("the source of zae-limiter %s could not be downloaded: %s", version,
			downloaded.Error)
	}
	return downloaded.Dir, "off", err
}

// checkout returns the folder of the programs' module in the checkout that has the
// working directory or the origin in it, or "".
func (t toolchain) checkout(ctx context.Context) string {
	if dir := t.mainModule(ctx); dir != "" {
		return dir
	}
	if t.origin == "" {
		return ""
	}

	// The receiver is a copy, so the caller keeps its folder.
	t.dir = t.origin
	return t.mainModule(ctx)
}

// origin returns the folder in which this file was compiled, or "" if the compiler
// trimmed it.
func origin() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file)
	}
	return ""
}

// mainModule returns the folder of the programs' module if the command runs in it, or
// in its workspace, or "".
func (t toolchain) mainModule(ctx context.Context) string {
	modules, err := t.run(ctx, "list", "-m", "-f", "{{if .Main}}{{.Path}} {{.Dir}}{{end}}")
	if err != nil {
		return ""
	}

	for line := range strings.Lines(modules) {
		if path, dir, _ := strings.Cut(strings.TrimSpace(line), " "); path == commandModule {
			return dir
		}
	}
	return ""
}

// isKilled reports whether a signal ended the command.
func isKilled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && !exit.Exited()
}

// trimDownloads removes lines about downloads from the output of the go command.
func trimDownloads(printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// run runs a go command and returns its standard output.
func (t toolchain) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), t.env...)

	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}

		// An interrupt at a terminal reaches the go command too, often just
		// before it cancels ctx. The pause lets the cancellation win over the
		// error of the killed command.
		if isKilled(err) {
			if pause.For(ctx, time.Second) != nil {
				return "", ctx.Err()
			}
		}

		return stdout.String(), fmt.Errorf("go %s: %w\n%s", args[0], err, trimDownloads(stderr.String()))
	}

	return stdout.String(), nil
}
