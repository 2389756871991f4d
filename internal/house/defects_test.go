package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rows lists the defects that must have a test.
var rows = strings.Fields(`
	B-1 B-2 B-3 B-4 B-5 B-6 B-7 B-8 B-9 B-10 B-11 B-12 B-13 B-14 B-15 B-16 B-17 B-18 B-19 B-20 B-21 B-22 B-23 B-24 B-25 B-26 B-27 B-28 B-29 B-30 B-31 B-32
	D-1 D-2 D-3 D-4 D-5 D-6 D-7 D-9 D-10 D-11 D-12
	1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41
	C-1 C-2 C-3 C-4 C-5 C-6 C-7 C-8 C-9 C-10 C-11 C-12 C-13 C-14 C-15 C-16 C-17 C-18 C-19 C-20 C-21 C-22 C-23 C-24 C-25 C-26 C-27 C-28 C-29 C-32 C-33 C-34 C-35
	A-1 A-2 A-3 A-4 A-5 A-6 A-7 A-8 A-9 A-10 A-11 A-12 A-13
	O-15 O-16 O-17 O-18 O-21 O-22`)

// testNames returns the names of the test functions in the module, and the string
// literals of test code, which include the names of subtests.
func testNames(t *testing.T) (functions, literals map[string]bool) {
	t.Helper()
	functions, literals = map[string]bool{}, map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.test && f.dir != "repotest" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.name, nil, parser.SkipObjectResolution)
		check(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				functions[n.Name.Name] = n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test")
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil {
					literals[s] = true
				}
			}
			return true
		})
	}
	for _, pattern := range []string{"*.txtar", "*/*.txtar"} { // each script is a subtest
		scripts, err := filepath.Glob("cmd/internal/cli/testdata/script/" + pattern)
		check(t, err)
		for _, name := range scripts {
			literals[strings.TrimSuffix(filepath.Base(name), ".txtar")] = true
		}
	}
	return functions, literals
}

func TestDefectsPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("docs/defects.md")
	check(t, err)
	functions, literals := testNames(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	var seen []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(cells[1], "row") || strings.Contains(cells[1], "---") {
			continue
		}
		row := strings.TrimSpace(cells[1])
		seen = append(seen, row)
		names := quoted.FindAllStringSubmatch(cells[3], -1)
		if len(names) == 0 {
			t.Errorf("row %s names no test", row)
		}
		for _, name := range names {
			parts := strings.Split(name[1], "/")
			if !functions[parts[0]] {
				t.Errorf("row %s: there is no test %s", row, parts[0])
			}
			for _, sub := range parts[1:] {
				if !literals[sub] {
					t.Errorf("row %s: %s has no subtest %q", row, parts[0], sub)
				}
			}
		}
	}
	for _, row := range rows {
		if !slices.Contains(seen, row) {
			t.Errorf("row %s is missing", row)
		}
	}
	slices.Sort(seen)
	if n := len(slices.Compact(slices.Clone(seen))); n != len(seen) {
		t.Errorf("%d rows are there twice", len(seen)-n)
	}
}
