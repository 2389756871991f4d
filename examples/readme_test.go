package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestREADMEs checks that each example has a short README, that the list names it,
// and that it runs a program that exists. The folder frameworks has tests only.
func TestREADMEs(t *testing.T) {
	t.Parallel()
	list := read(t, "README.md")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() || name == "frameworks" {
			continue
		}
		text := read(t, filepath.Join(name, "README.md"))
		if lines := len(regexp.MustCompile(`(?m)^.*\S`).FindAllString(text, -1)); lines < 4 || lines > 12 {
			t.Errorf("the README of %s has %d lines, want about ten", name, lines)
		}
		if !strings.Contains(list, "["+name+"]("+name+")") {
			t.Errorf("README.md does not list %s", name)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(name, link[1])); err != nil {
				t.Errorf("the README of %s: %v", name, err)
			}
		}
		for _, run := range regexp.MustCompile(`go run \./(\S+)`).FindAllStringSubmatch(text, -1) {
			if run[1] != name {
				t.Errorf("the README of %s runs %s", name, run[1])
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
