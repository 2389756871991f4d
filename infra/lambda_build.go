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
)

var (
	errNoToolchain = errors.New("there is no Go to build one")
	errNoSource    = errors.New("there is no source to build one from, since this program is no release")
)

// toolchain runs the go command. The zero value runs it as the user would.
type toolchain struct {
	dir    string   // where; default: here
	origin string   // where this program was compiled, "" if it does not say
	env    []string // besides the process's own
}

// goArchitectures are the architectures as Go names them.
var goArchitectures = map[string]string{ARM64: "arm64", X8664: "amd64"}

// prepare finds what would be compiled: a package without code.
func prepare(ctx context.Context, t toolchain, o PackageOptions) (*Package, error) {
	source, err := t.source(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	return &Package{Architecture: o.Architecture, Source: "to be built from " + source}, nil
}

// build compiles zae-limiter for the functions.
func build(ctx context.Context, t toolchain, o PackageOptions) (_ *Package, err error) {
	source, err := t.source(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	output := filepath.Join(folder, bootstrap)
	compile := toolchain{dir: source, env: append([]string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + goArchitectures[o.Architecture], "GOARM64=v8.0", "GOAMD64=v1", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off",
	}, t.env...)}
	done := func(error) {}
	if o.Building != nil {
		done = o.Building(o.Architecture)
	}
	flags := "-s -w -X " + module + "/internal/cli.version=" + strings.TrimPrefix(o.Version, "v")
	_, err = compile.run(ctx, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", output, "./cmd/zae-limiter")
	done(err)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	if err := checkProgram(content, o.Architecture); err != nil {
		return nil, fmt.Errorf("what was built from %s cannot run as a function: %w", source, err)
	}
	return pack(content, o.Architecture, "built from "+source)
}

// source is the folder of the module at a version. A release is taken from
// where Go keeps modules, so that a checkout one happens to stand in does not
// replace it; what was built in a checkout is built from it again.
func (t toolchain) source(ctx context.Context, version string) (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", errNoToolchain
	}
	found := release(version)
	isRelease := found != "" && semver.Build(found) == ""
	if !isRelease || semver.Prerelease(found) != "" {
		if dir := t.checkout(ctx); dir != "" {
			return dir, nil
		}
	}
	if !isRelease {
		return "", errNoSource
	}
	out, err := t.run(ctx, "mod", "download", "-json", module+"@"+found)
	var downloaded struct{ Dir, Error string }
	if json.Unmarshal([]byte(out), &downloaded) == nil && downloaded.Error != "" {
		return "", fmt.Errorf("the source of zae-limiter %s cannot be had: %s", version, downloaded.Error)
	}
	return downloaded.Dir, err
}

// checkout is the folder of this module if that is where the command runs, or
// where this program was compiled, else "".
func (t toolchain) checkout(ctx context.Context) string {
	if dir := t.mainModule(ctx); dir != "" {
		return dir
	}
	if t.origin == "" {
		return ""
	}
	t.dir = t.origin
	return t.mainModule(ctx)
}

// origin is the folder of this file when it was compiled, unless the compiler was
// told to leave that out.
func origin() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file)
	}
	return ""
}

// mainModule is the folder of this module if the command runs in it, else "".
func (t toolchain) mainModule(ctx context.Context) string {
	modules, err := t.run(ctx, "list", "-m", "-f", "{{if .Main}}{{.Path}} {{.Dir}}{{end}}")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(modules) {
		if path, dir, _ := strings.Cut(strings.TrimSpace(line), " "); path == module {
			return dir
		}
	}
	return ""
}

func isInterrupted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && !exit.Exited()
}

// complaints leaves out what was fetched before.
func complaints(printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// run is what a go command printed.
func (t toolchain) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), t.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if isInterrupted(err) { // by the same key that ends this program, of which it may know a moment later
			if pause(ctx, time.Second) != nil {
				return "", ctx.Err()
			}
		}
		return stdout.String(), fmt.Errorf("go %s: %w\n%s", args[0], err, complaints(stderr.String()))
	}
	return stdout.String(), nil
}
