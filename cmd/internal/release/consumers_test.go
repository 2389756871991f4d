package release

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "github.com/zeroae/zae-limiter-go"

// consumer is a machine of a user: a proxy with a release of our modules, and no
// workspace.
type consumer struct {
	*testing.T
	env     []string
	version string // which scripts/release prepared in a copy of this checkout
}

// newConsumer releases a copy of this checkout to a module proxy in a folder.
func newConsumer(t *testing.T) *consumer {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a release of every module")
	}
	copied, proxy := copyCheckout(t), t.TempDir()
	c := &consumer{t, os.Environ(), "v0.987.0-test." + strings.ToLower(rand.Text())}
	c.run(copied, "scripts/release", "prepare", c.version)
	c.run(copied, "scripts/module-proxy", proxy, c.version)

	// What is downloaded already stays in the user's cache, since other modules take minutes to
	// unpack. The version is new, so nothing there can stand in for it.
	cache := strings.TrimSpace(c.run(".", "go", "env", "GOMODCACHE"))
	t.Cleanup(func() { c.forget(cache) })
	c.env = append(os.Environ(), "GOWORK=off", "GOPROXY=file://"+proxy+","+strings.TrimSpace(c.run(".", "go", "env", "GOPROXY")),
		"GOFLAGS=-modcacherw -trimpath", "GONOSUMDB="+repository+","+repository+"/*", "CGO_ENABLED=0")
	return c
}

// forget removes the release from a module cache.
func (c *consumer) forget(cache string) {
	c.Helper()
	for _, pattern := range []string{
		repository + "@" + c.version, repository + "/*@" + c.version, repository + "/*/*@" + c.version,
		"cache/download/" + repository + "/@v/" + c.version + ".*",
		"cache/download/" + repository + "/*/@v/" + c.version + ".*",
		"cache/download/" + repository + "/*/*/@v/" + c.version + ".*",
	} {
		found, err := filepath.Glob(filepath.Join(cache, filepath.FromSlash(pattern)))
		c.ok(err)
		for _, name := range found {
			c.ok(os.RemoveAll(name))
		}
	}
}

// copyCheckout commits the files of this checkout that git knows in a new repository.
func copyCheckout(t *testing.T) string {
	t.Helper()
	c, to := &consumer{T: t, env: os.Environ()}, t.TempDir()
	names := c.run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		c.ok(err)
		info, err := os.Stat(filepath.Join(root, name))
		c.ok(err)
		c.ok(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		c.ok(os.WriteFile(filepath.Join(to, name), content, info.Mode()))
	}
	c.run(to, "git", "init", "--quiet")
	c.run(to, "git", "config", "user.name", "release test")
	c.run(to, "git", "config", "user.email", "release@example.com")
	c.run(to, "git", "add", "--all")
	c.run(to, "git", "commit", "--quiet", "--no-verify", "--message", "all of it")
	return to
}

func (c *consumer) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// run runs a command in a folder and returns what it prints.
func (c *consumer) run(dir, name string, args ...string) string {
	c.Helper()
	if strings.HasPrefix(name, "scripts/") {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(c.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, c.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		c.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// newModule writes a program that imports some packages, tidies its module, and builds
// the program. It returns the folder and the modules that go list -m all names.
func (c *consumer) newModule(goMod string, imports ...string) (dir string, modules []string) {
	c.Helper()
	dir = c.TempDir()
	program := "package main\n\nimport (\n"
	for _, name := range imports {
		program += "\t_ \"" + name + "\"\n"
	}
	program += ")\n\nfunc main() {}\n"
	c.ok(os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	c.ok(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/consumer\n\ngo 1.26.0\n\n"+goMod), 0o600))
	c.run(dir, "go", "mod", "tidy")
	c.run(dir, "go", "vet", ".")
	return dir, strings.Split(strings.TrimSpace(c.run(dir, "go", "list", "-m", "all")), "\n")
}

// requirements returns the modules that a go.mod requires, indirect ones included.
func (c *consumer) requirements(dir string) (all []string) {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	c.ok(err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) > 1 && strings.HasPrefix(fields[1], "v") {
			all = append(all, fields[0])
		}
	}
	return all
}

// TestConsumers takes packages from a release as users do, and checks what else comes
// with them.
func TestConsumers(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)

	// The limiter in memory requires nothing, so the user's own versions stay.
	dir, modules := c.newModule("", repository, repository+"/memory", repository+"/escrow", repository+"/httplimit")
	if got := c.requirements(dir); !slices.Equal(got, []string{repository}) {
		t.Errorf("the root and memory bring %q", got)
	}
	if len(modules) != 3 {
		t.Errorf("the root and memory show %d modules: %q", len(modules), modules)
	}
	const own = "google.golang.org/grpc v1.79.0"
	_, modules = c.newModule("require "+own+"\n", repository+"/memory", "google.golang.org/grpc")
	if !slices.Contains(modules, own) {
		t.Errorf("the user's %s became another version: %q", own, modules)
	}

	for store, foreign := range map[string]string{"sqlite": "github.com/aws/", "dynamo": "modernc.org/"} {
		dir, modules := c.newModule("", repository+"/"+store)
		if slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(m, foreign) }) {
			t.Errorf("%s brings %s: %q", store, foreign, modules)
		}
		if !slices.Contains(c.requirements(dir), repository+"/"+store) {
			t.Errorf("%s is not a module", store)
		}
	}

	// The program comes from a release alone, and knows its version.
	bin := t.TempDir()
	c.env = append(c.env, "GOBIN="+bin)
	c.run(t.TempDir(), "go", "install", repository+"/cmd/zae-limiter@"+c.version)
	said := c.run(t.TempDir(), filepath.Join(bin, "zae-limiter"), "version")
	if !strings.HasPrefix(said, "zae-limiter "+strings.TrimPrefix(c.version, "v")+" ") {
		t.Errorf("the installed program says %q", said)
	}
}
