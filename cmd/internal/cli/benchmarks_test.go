package cli_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// TestBenchmarksPage checks that docs/benchmarks.md names the commit that it was
// made with, and that its commands exist. It does not compare times.
func TestBenchmarksPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docsFolder, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	commit := regexp.MustCompile(`(?m)^\| commit \| ([0-9a-f]{40}) \|$`).FindStringSubmatch(page)
	if commit == nil {
		t.Fatal("the page names no commit; make report writes it from a tree without changes")
	}
	checkCommit(t, commit[1])
	makefile, err := os.ReadFile(filepath.Join(docsFolder, "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, found := range regexp.MustCompile("`((?:make|zae-limiter) [^`]+)`").FindAllStringSubmatch(page, -1) {
		words := strings.Fields(found[1])
		commands++
		switch words[0] {
		case "make":
			if !strings.Contains(string(makefile), "\n"+words[1]+":") {
				t.Errorf("%s: there is no such target", found[1])
			}
		case "zae-limiter":
			checkCommand(t, words[1:])
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found", commands)
	}
	for _, image := range regexp.MustCompile(`\]\((images/[^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(docsFolder, image[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestBenchmarksAreRecent requires that the figures are not more than one release
// older than the packages. It needs no history: the page names the newest release
// at the time, as make report read it from the changelog.
func TestBenchmarksAreRecent(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docsFolder, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(docsFolder, "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if why := outdated(string(page), string(changelog)); why != "" {
		t.Errorf("docs/benchmarks.md: %s; run make report", why)
	}
}

var (
	releaseRow     = regexp.MustCompile(`(?m)^\| release \| (?:before the first|after (\S+)) \|$`)
	releaseHeading = regexp.MustCompile(`(?m)^## \[(\d[^]]*)\]`)
)

// outdated returns why the figures of a page are too old for a changelog, or "".
func outdated(page, changelog string) string {
	row := releaseRow.FindStringSubmatch(page)
	if row == nil {
		return "it names no release"
	}
	releases := releaseHeading.FindAllStringSubmatch(changelog, -1) // newest first
	behind := len(releases)
	if row[1] != "" {
		behind = slices.IndexFunc(releases, func(heading []string) bool { return heading[1] == row[1] })
	}
	switch {
	case behind < 0:
		return "the changelog does not list release " + row[1]
	case behind > 1:
		return fmt.Sprintf("it is %d releases old", behind)
	}
	return ""
}

func TestOutdated(t *testing.T) {
	const three = "## [Unreleased]\n\n## [1.2.0] - 2027-01-01\n\n## [1.1.0]\n\n## [1.0.0]\n"
	for _, test := range []struct{ page, changelog, want string }{
		{"| release | before the first |", "## [Unreleased]\n", ""},
		{"| release | before the first |", "## [Unreleased]\n## [0.1.0]\n", ""},
		{"| release | before the first |", "## [Unreleased]\n## [0.2.0]\n## [0.1.0]\n", "it is 2 releases old"},
		{"| release | after 1.2.0 |", three, ""},
		{"| release | after 1.1.0 |", three, ""},
		{"| release | after 1.0.0 |", three, "it is 2 releases old"},
		{"| release | after 0.9.0 |", three, "the changelog does not list release 0.9.0"},
		{"| commit | x |", three, "it names no release"},
	} {
		if got := outdated(test.page, test.changelog); got != test.want {
			t.Errorf("%s: %q, want %q", test.page, got, test.want)
		}
	}
}

// checkCommit requires that a commit is part of the history, if there is one.
func checkCommit(t *testing.T, commit string) {
	t.Helper()
	shallow, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) == "true" {
		t.Log("there is no whole history to look the commit up in")
		return
	}
	if out, err := exec.CommandContext(
		t.Context(), "git", "merge-base", "--is-ancestor", commit, "HEAD",
	).CombinedOutput(); err != nil {
		t.Errorf("commit %s is not in the history: %v %s", commit, err, out)
	}
}

// checkCommand requires that a command of the program and its flags exist.
func checkCommand(t *testing.T, args []string) {
	t.Helper()
	root := cli.NewProgram(kit.NewConsole(nil, io.Discard, io.Discard), nil)
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root {
		t.Errorf("zae-limiter %s: no such command (%v)", strings.Join(args, " "), err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("zae-limiter %s: %v", strings.Join(args, " "), err)
	}
}
