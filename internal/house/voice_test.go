package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// phrases matches wording that CONTRIBUTING.md bans, in each form that a line
// break leaves of it. Every phrase is split here, so that the file passes its
// own test and a plain grep of the tree finds nothing.
var phrases = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`tells ` + `whether`, `(?:is|are) ` + `those of`, `is ` + `that of`, `who` + `ever`, `no` + `body`, `some` + `body`,
	`the ` + `one that`, `of ` + `which`, `is ` + `told`,
}, "|") + `)\b`)

// copula matches a comment that describes a function as a thing.
var copula = regexp.MustCompile(`^\w+ (is|are|tells) `)

// TestVoice checks comments, messages and documents against the style of
// CONTRIBUTING.md.
func TestVoice(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "dist" || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			checkSource(t, path)
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			checkPhrases(t, path, 1, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkSource checks the comments of a Go file, and its strings. In tests a
// single word is data.
func checkSource(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		checkPhrases(t, path, files.Position(group.Pos()).Line, group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if copula.MatchString(n.Doc.Text()) {
				t.Errorf("%v: start with a verb, such as %q: %s", files.Position(n.Pos()), n.Name.Name+" returns",
					firstLine(n.Doc.Text()))
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && (!strings.HasSuffix(path, "_test.go") || strings.Contains(n.Value, " ")) {
				checkPhrases(t, path, files.Position(n.Pos()).Line, n.Value)
			}
		}
		return true
	})
}

func checkPhrases(t *testing.T, path string, line int, text string) {
	t.Helper()
	joined := strings.ReplaceAll(text, "\n", " ") // a phrase may be wrapped
	for _, at := range phrases.FindAllStringIndex(joined, -1) {
		t.Errorf("%s:%d: %q is not plain", path, line+strings.Count(text[:at[0]], "\n"), joined[at[0]:at[1]])
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
