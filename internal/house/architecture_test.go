package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureListsThePackages compares the table in docs/architecture.md
// with the rules that imports_test.go enforces.
func TestArchitectureListsThePackages(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	check(t, err)
	_, table, _ := strings.Cut(string(text), "| package | holds | may import |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if names := quoted(cells[1]); len(names) == 1 {
			listed[names[0]] = quoted(cells[3])
		}
	}
	for _, rule := range packages {
		if slices.Contains(testOnly, "./"+rule.dir) {
			continue
		}
		imports, ok := listed[rule.dir]
		if !ok {
			t.Errorf("docs/architecture.md lacks package %s", rule.dir)
		} else if !slices.Equal(slices.Sorted(slices.Values(imports)), slices.Sorted(slices.Values(rule.may))) {
			t.Errorf("docs/architecture.md says that %s may import %q; imports_test.go says %q", rule.dir, imports,
				rule.may)
		}
		delete(listed, rule.dir)
	}
	for dir := range listed {
		t.Errorf("docs/architecture.md lists %s, which imports_test.go does not", dir)
	}
}

var code = regexp.MustCompile("`([^`]+)`")

// quoted returns what a cell of a table quotes as code.
func quoted(cell string) []string {
	var names []string
	for _, match := range code.FindAllStringSubmatch(cell, -1) {
		names = append(names, match[1])
	}
	return names
}
