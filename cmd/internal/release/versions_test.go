package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGoVersionsAgree compares the Go version of everything that names one with
// go.mod: its patch releases are the latest ones.
func TestGoVersionsAgree(t *testing.T) {
	match := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, root+"/go.mod"))
	if match == nil {
		t.Fatal("go.mod has no Go version")
	}
	want := match[1]
	for name, j := range jobs(t) {
		setup := slices.IndexFunc(j.Steps, func(s step) bool { return strings.HasPrefix(s.Uses, "actions/setup-go@") })
		if setup < 0 && runsGo(j) {
			t.Errorf("%s runs make or go without actions/setup-go", name)
		} else if setup >= 0 && j.Steps[setup].With["go-version"] != want {
			t.Errorf("%s has go-version %q; go.mod has %s", name, j.Steps[setup].With["go-version"], want)
		}
	}
	for file, pattern := range map[string]string{
		"Dockerfile":      `golang:([\d.]+)`,
		"CONTRIBUTING.md": `Go (\d+\.\d+) or newer`,
		"bench/go.mod":    `(?m)^go (\d+\.\d+)`,
		"examples/go.mod": `(?m)^go (\d+\.\d+)`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, filepath.Join(root, file)), -1)
		if len(found) == 0 {
			t.Errorf("%s names no Go version", file)
		}
		for _, m := range found {
			if m[1] != want {
				t.Errorf("%s has %q; go.mod has Go %s", file, m[0], want)
			}
		}
	}
}

func runsGo(j job) bool {
	return slices.ContainsFunc(j.Steps, func(s step) bool {
		return strings.HasPrefix(s.Run, "make ") || strings.HasPrefix(s.Run, "go ")
	})
}

// TestGoReleaserVersionsAgree compares the version that snapshots use with that of
// releases.
func TestGoReleaserVersionsAgree(t *testing.T) {
	match := regexp.MustCompile(`goreleaser/v2@(v[\d.]+)`).FindStringSubmatch(read(t, root+"/Makefile"))
	if match == nil {
		t.Fatal("the Makefile runs no GoReleaser")
	}
	found := false
	for _, s := range workflows(t)["release.yaml"].Jobs["release"].Steps {
		if strings.HasPrefix(s.Uses, "goreleaser/goreleaser-action@") {
			found = true
			if got := s.With["version"]; got != "~> "+match[1] {
				t.Errorf("release.yaml has GoReleaser %q; the Makefile has %s", got, match[1])
			}
		}
	}
	if !found {
		t.Error("release.yaml does not run GoReleaser")
	}
}

// TestDependabotCoversEveryModule checks that no go.mod is forgotten.
func TestDependabotCoversEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	readYAML(t, root+"/.github/dependabot.yml", &config)
	var got []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			got = append(got, u.Directories...)
		}
	}
	slices.Sort(got)
	if want := modules(t); !slices.Equal(got, want) {
		t.Errorf("dependabot.yml updates the modules in %q; the tree has %q", got, want)
	}
}

// modules returns the folders with a go.mod, as Dependabot writes them.
func modules(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" ||
			name == "node_modules" || name == "dist"):
			return fs.SkipDir
		case name == "go.mod":
			dirs = append(dirs, strings.TrimSuffix("/"+strings.TrimSuffix(path, "go.mod"), "/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, dir := range dirs {
		if dir == "" {
			dirs[i] = "/"
		}
	}
	slices.Sort(dirs)
	return dirs
}

// TestReleaseNamesFilesThatExist checks the paths in the configuration of releases,
// which GoReleaser skips with a warning if they are missing.
func TestReleaseNamesFilesThatExist(t *testing.T) {
	paths := regexp.MustCompile(
		`(?m)^\s*(?:- )?(?:src|main|dockerfile): (\S+)$`,
	).FindAllStringSubmatch(read(t, root+"/.goreleaser.yaml"), -1)
	if len(paths) < 10 {
		t.Fatalf("only %d paths", len(paths))
	}
	for _, match := range paths {
		path := match[1]
		if strings.HasPrefix(path, "dist/") || strings.HasPrefix(path, ".cache/") || strings.HasPrefix(path, "/usr/") {
			continue // the release makes it
		}
		if found, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(found) == 0 {
			t.Errorf(".goreleaser.yaml names %s, which does not exist: %v", path, err)
		}
	}
}
