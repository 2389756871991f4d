package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// checkCommit requires that a commit is part of the history, if there is one.
func checkCommit(t *testing.T, commit string) {
	t.Helper()
	shallow, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) == "true" {
		t.Log("there is no whole history to look the commit up in")
		return
	}
	if out, err := exec.CommandContext(t.Context(), "git", "merge-base", "--is-ancestor", commit, "HEAD").CombinedOutput(); err != nil {
		t.Errorf("commit %s is not in the history: %v %s", commit, err, out)
	}
}

// checkCommand requires that a command of the program and its flags exist.
func checkCommand(t *testing.T, args []string) {
	t.Helper()
	root := newRoot(newConsole(nil, io.Discard, io.Discard))
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root {
		t.Errorf("zae-limiter %s: no such command (%v)", strings.Join(args, " "), err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("zae-limiter %s: %v", strings.Join(args, " "), err)
	}
}
