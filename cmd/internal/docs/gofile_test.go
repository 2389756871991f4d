package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// TestGoBlocks compares each Go block with the region of the file that its tag
// names, which the compiler and the tests of its package check. -update rewrites
// blocks.
func TestGoBlocks(t *testing.T) {
	for _, p := range pages(t) {
		fresh := map[int]string{}
		for _, b := range p.Blocks {
			name, found := strings.CutPrefix(b.Tag, "go ")
			if b.Lang != "go" || !found {
				continue
			}
			file, name, _ := strings.Cut(name, "#")
			text, ok := region(t, file, name)
			switch {
			case !ok:
				t.Errorf("%s:%d: %s has no region between //docs:%s and //docs:end", p.Path, b.Line, file, name)
			case b.Text == text || b.Text == withoutChecks(text):
			case *golden.Update:
				fresh[b.Line] = withoutChecks(text)
				if errorCheck.MatchString(b.Text) {
					fresh[b.Line] = text
				}
			default:
				t.Errorf("%s:%d is not the region %s of %s (-page +file), make docs rewrites it:\n%s", p.Path,
					b.Line, name, file, cmp.Diff(b.Text, withoutChecks(text)))
			}
		}
		if len(fresh) > 0 {
			if err := os.WriteFile(filepath.Join(root, p.Path), []byte(p.Replace(fresh)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// region returns a region of a Go file, without the indentation of its first line.
func region(t *testing.T, file, name string) (string, bool) {
	t.Helper()
	if !strings.HasSuffix(file, ".go") {
		return "", false
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Error(err)
		return "", false
	}
	var out strings.Builder
	inside, indent := false, ""
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "//docs:"+name:
			inside = true
			indent, _, _ = strings.Cut(line, "//")
		case inside && trimmed == "//docs:end":
			return strings.Trim(out.String(), "\n") + "\n", true
		case inside:
			out.WriteString(strings.TrimPrefix(line, indent))
		}
	}
	return "", false
}

var errorCheck = regexp.MustCompile(`(?m)^\t*if err != nil \{\n\t+[^\n]*\n\t*\}\n`)

// withoutChecks removes checks of errors of three lines, which a page may leave out.
func withoutChecks(text string) string { return errorCheck.ReplaceAllString(text, "") }
