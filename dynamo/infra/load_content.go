package infra

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// loadContent is the code of a load stack: the programs of its containers and its
// function, and the user's scenarios.
type loadContent struct {
	program  []byte // of the containers
	function []byte // the program of the function
	source   string // of function, for display
	files    []file // of the user, below scenarios/
	locust   string // the version of Locust
}

const scenarioFolder = "scenarios"

// newLoadContent collects the program and the files of a load stack.
func (l *load) newLoadContent(ctx context.Context) (*loadContent, error) {
	files, err := readScenarios(l.opts.Dir)
	if err != nil {
		return nil, err
	}
	c := &loadContent{files: files, locust: l.opts.Locust}
	if err := l.addPrograms(ctx, c); err != nil {
		return nil, l.refuseCode(ctx, err)
	}
	return c, nil
}

// addPrograms adds the programs of the containers and the function. A program of
// the user, which has scenarios of its own, is both.
func (l *load) addPrograms(ctx context.Context, c *loadContent) (err error) {
	// The user's program contains this module, so it can serve as the function
	// too.
	if l.opts.Program != "" {
		c.program, err = readOwnProgram(l.opts.Program)
		c.function, c.source = c.program, l.opts.Program
		return err
	}

	o := PackageOptions{Architecture: X8664, Version: l.session.opts.Version, Building: l.session.opts.Building}
	t := toolchain{origin: origin()}
	running, programErr := runningProgram(X8664)

	if c.program = running; programErr != nil {
		if c.program, _, err = compile(ctx, t, o, "zae-limiter"); err != nil && ctx.Err() == nil {
			err = fmt.Errorf(
				"no program for load tests; run a release of zae-limiter for Linux on x86_64, or install Go "+
					"to build it: %w, and %w",
				programErr, err,
			)
		}
		if err != nil {
			return err
		}
	}

	c.function, c.source, err = functionCode(ctx, t, o)
	return err
}

// readOwnProgram reads a program that the user built.
func readOwnProgram(path string) ([]byte, error) {
	refuse := func(reason string) ([]byte, error) { return nil, invalid("program", path, reason) }

	content, err := os.ReadFile(path)
	if err != nil {
		return refuse("cannot be read: " + pathErrorText(err))
	}

	if err := checkProgram(content, X8664); err != nil {
		return refuse("cannot run a load test: " + err.Error())
	}

	info, err := buildinfo.Read(bytes.NewReader(content))
	// Build info is optional, but a program that has it must contain package
	// loadtest.
	if err == nil && info.Path != mainPackage && !slices.ContainsFunc(info.Deps, func(d *debug.Module) bool {
		return d.Path == module
	}) {
		return refuse(
			"is " + cmp.Or(info.Path, "unknown") + ", which does not contain " + module +
				"; its main function must call loadtest.Main",
		)
	}
	return content, nil
}

// maxScenarioBytes is the maximum size of a user's scenarios.
const maxScenarioBytes = 50 << 20

// readScenarios reads all files of a folder for the image and the function. It
// leaves out hidden files and folders, which hold histories and secrets.
func readScenarios(dir string) (files []file, err error) {
	if dir == "" {
		return nil, nil
	}

	refuse := func(reason string) error { return invalid("folder", dir, reason) }
	total := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return refuse("cannot be read: " + pathErrorText(err))
		}

		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		if hidden := strings.HasPrefix(e.Name(), ".") && relative != "."; hidden || e.IsDir() {
			if hidden && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}

		// The target of a link counts, since the image gets the file itself.
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return refuse(
				"has " + relative + ", which is no file; remove it, or choose a folder with nothing but scenarios",
			)
		}

		// The bound keeps the total from overflowing, however large a file is.
		if total += int(min(info.Size(), maxScenarioBytes+1)); total > maxScenarioBytes {
			return refuse(fmt.Sprintf("has more than %d MB; choose a folder with nothing but scenarios",
				maxScenarioBytes>>20))
		}

		content, err := os.ReadFile(path)
		if err != nil {
			return refuse("has " + relative + ", which cannot be read: " + pathErrorText(err))
		}

		// The tag covers the mode. Only executable bits count, since the others
		// differ by machine.
		files = append(files, file{
			scenarioFolder + "/" + filepath.ToSlash(relative), 0o644 | info.Mode()&0o111, content,
		})

		return nil
	})
	// WalkDir also walks a single file.
	if err == nil && !isFolder(dir) {
		return nil, refuse("must be a folder")
	}

	return files, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pack returns the package of the worker function.
func (c *loadContent) pack() (*Package, error) {
	return pack(c.function, X8664, c.source, c.files...)
}

// context returns the files of the folder that docker builds the image from.
func (c *loadContent) context() []file {
	return slices.Concat([]file{
		{"Dockerfile", 0o644, []byte(c.dockerfile())},
		{"locust-master", 0o755, []byte(masterScript)},
		{"zae-limiter", 0o755, c.program},
		// COPY fails without a folder, which the user may not have given.
		{scenarioFolder + "/.keep", 0o644, nil},
	}, c.files)
}

// tag returns the tag of the image: a hash of all that it is built from.
func (c *loadContent) tag() string {
	h := sha256.New()
	// The length of each file keeps two different lists of files from having
	// one hash.
	for _, f := range c.context() {
		h.Write(fmt.Appendf(nil, "%s %o %d\n", f.name, f.mode, len(f.content)))
		h.Write(f.content)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// hasRequirements reports whether the user's folder lists Python packages.
func (c *loadContent) hasRequirements() bool {
	return slices.ContainsFunc(c.files, func(f file) bool { return f.name == scenarioFolder+"/requirements.txt" })
}

// write writes the context to a folder.
func (c *loadContent) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}

	for _, f := range c.context() {
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(f.name)), 0o755); err != nil {
			return errors.Join(err, root.Close())
		}
		if err := root.WriteFile(filepath.FromSlash(f.name), f.content, f.mode); err != nil {
			return errors.Join(err, root.Close())
		}
	}
	return root.Close()
}

// masterScript starts the Locust master. $LOCUSTFILE is a Python file in the user's
// folder, or the name of a scenario, whose file the program prints.
const masterScript = `#!/bin/sh
set -eu
scenario=${LOCUSTFILE:-simple}
file=$ZAE_LIMITER_SCENARIOS/$scenario
if [ "${file%.py}" = "$file" ] || [ ! -f "$file" ]; then
	file=${TMPDIR:-/tmp}/locustfile.py
	zae-limiter loadtest locustfile "$scenario" -C "$ZAE_LIMITER_SCENARIOS" >"$file"
fi
# Locust separates classes by spaces.
LOCUST_USER_CLASSES=$(echo "${LOCUST_USER_CLASSES:-}" | tr ',' ' ')
export LOCUST_USER_CLASSES
exec locust --master --master-bind-host '*' --master-bind-port 5557 \
	--web-host 0.0.0.0 --web-port 8089 --class-picker --enable-rebalancing -f "$file"
`

// dockerfile returns the description of the image. Locust runs on Python; the rest
// is one program.
func (c *loadContent) dockerfile() string {
	install := "RUN pip install --no-cache-dir locust==" + c.locust + "\n"
	if c.hasRequirements() {
		install += "COPY scenarios/requirements.txt /tmp/requirements.txt\n" +
			"RUN pip install --no-cache-dir locust==" + c.locust + " -r /tmp/requirements.txt\n"
	}

	return `FROM python:3.13-slim
ENV PYTHONUNBUFFERED=1 ZAE_LIMITER_SCENARIOS=/scenarios
` + install + `COPY zae-limiter locust-master /usr/local/bin/
COPY scenarios/ /scenarios/
WORKDIR /scenarios
RUN useradd --system --no-create-home locust
USER locust
EXPOSE 8089 5557 5558
CMD ["locust-master"]
`
}
