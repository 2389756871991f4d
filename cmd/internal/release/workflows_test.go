package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../../.."

// workflow is the part of a workflow that the tests look at.
type workflow struct {
	Name        string            `yaml:"name"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]job    `yaml:"jobs"`
}

type job struct {
	RunsOn  string `yaml:"runs-on"`
	Timeout int    `yaml:"timeout-minutes"`
	Steps   []step `yaml:"steps"`
}

type step struct {
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	With map[string]string `yaml:"with"`
}

// jobs returns every job by its workflow and name.
func jobs(t *testing.T) map[string]job {
	t.Helper()
	all := map[string]job{}
	for file, w := range workflows(t) {
		for name, j := range w.Jobs {
			all[file+", job "+name] = j
		}
	}
	return all
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(root + "/.github/workflows/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("workflows %q: %v", files, err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		var w workflow
		readYAML(t, file, &w)
		all[filepath.Base(file)] = w
	}
	return all
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestWorkflowsAreBounded checks that a job that hangs ends, and that no workflow may
// write by default.
func TestWorkflowsAreBounded(t *testing.T) {
	for file, w := range workflows(t) {
		if w.Name == "" || len(w.Jobs) == 0 {
			t.Errorf("%s: needs a name and jobs", file)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions are %v; want contents: read, and more only in the job that needs it", file,
				w.Permissions)
		}
	}
	for name, j := range jobs(t) {
		if j.Timeout == 0 || j.RunsOn == "" || len(j.Steps) == 0 {
			t.Errorf("%s: runs-on %q, timeout-minutes %d, %d steps; want all of them", name, j.RunsOn, j.Timeout,
				len(j.Steps))
		}
	}
}

var (
	pinned   = regexp.MustCompile(`^[\w-]+(/[\w.-]+)+@[0-9a-f]{40}$`)
	official = regexp.MustCompile(`^(actions|github)(/[\w.-]+)+@(v\d+|[0-9a-f]{40})$`)
	named    = regexp.MustCompile(`@[0-9a-f]{40}(?: # v\d+\.\d+\.\d+)?`)
)

// TestActionsArePinned checks that no action follows a branch. An action that is
// not GitHub's has its commit, because its owner, or a thief of its keys, can move
// a tag while a release has the right to publish.
func TestActionsArePinned(t *testing.T) {
	for name, j := range jobs(t) {
		for _, s := range j.Steps {
			if s.Uses != "" && !pinned.MatchString(s.Uses) && !official.MatchString(s.Uses) {
				t.Errorf(
					"%s uses %s; want a commit, or the major version of an action of GitHub, such as "+
						"actions/checkout@v5",
					name, s.Uses,
				)
			}
		}
	}
	for _, pin := range named.FindAllString(read(t, root+"/.github/workflows/release.yaml"), -1) {
		if !strings.Contains(pin, " # v") {
			t.Errorf("release.yaml pins %s; want the version behind it, such as # v1.2.3", pin)
		}
	}
}

var (
	makeCall   = regexp.MustCompile(`(?:^|[;&|]\s*)make((?: [^;&|]+)?)`)
	expression = regexp.MustCompile(`\$\{\{.*?\}\}`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// TestWorkflowsCallTargetsThatExist compares the calls of make with the Makefile.
func TestWorkflowsCallTargetsThatExist(t *testing.T) {
	var targets []string
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, root+"/Makefile"), -1) {
		targets = append(targets, match[1])
	}
	calls := 0
	for name, j := range jobs(t) {
		for _, target := range calledTargets(j) {
			calls++
			if !slices.Contains(targets, target) {
				t.Errorf("%s: the Makefile has no target %s", name, target)
			}
		}
	}
	if calls < 10 {
		t.Errorf("only %d calls of make", calls)
	}
}

// calledTargets returns the targets that the steps of a job make.
func calledTargets(j job) []string {
	var targets []string
	for _, s := range j.Steps {
		for line := range strings.Lines(s.Run) {
			targets = append(targets, targetsOf(line)...)
		}
	}
	return targets
}

// targetsOf returns the targets that a line of a script makes.
func targetsOf(line string) []string {
	var targets []string
	line = expression.ReplaceAllString(strings.TrimSpace(line), "x")
	for _, match := range makeCall.FindAllStringSubmatch(line, -1) {
		for word := range strings.FieldsSeq(match[1]) {
			if !strings.ContainsAny(word, "=$") && !strings.HasPrefix(word, "-") {
				targets = append(targets, word)
			}
		}
	}
	return targets
}

func TestTargetsOf(t *testing.T) {
	for line, want := range map[string][]string{
		"make lint":                               {"lint"},
		"make compare OPS=1 STORES=dynamo":        {"compare"},
		"make OPS=${{ matrix.ops }} compare":      {"compare"},
		"go vet ./... && make -s test lint; make": {"test", "lint"},
		"cmake this":                              nil,
	} {
		if got := targetsOf(line); !slices.Equal(got, want) {
			t.Errorf("targetsOf(%q) = %q, want %q", line, got, want)
		}
	}
}
