package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// maxNames bounds the exported names of the root package, without methods and
// fields, so that it can be learned in an afternoon.
const maxNames = 97

// parseRoot parses the files of the root package, without tests.
func parseRoot(t *testing.T) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(".")
	check(t, err)
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			check(t, err)
			files = append(files, f)
		}
	}
	return files
}

// api holds the exported top-level names of the root package, and the comment of
// everything exported.
type api struct {
	names []string
	docs  map[string]string
}

func readAPI(t *testing.T) api {
	t.Helper()
	a := api{docs: map[string]string{}}
	for _, f := range parseRoot(t) {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				a.addFunc(d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					a.addSpec(spec, d.Doc.Text())
				}
			}
		}
	}
	return a
}

func (a *api) addFunc(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	name := d.Name.Name
	if d.Recv == nil {
		a.names = append(a.names, name)
	} else {
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		id, ok := receiver.(*ast.Ident)
		if !ok || !id.IsExported() {
			return
		}
		name = id.Name + "." + name
	}
	a.docs[name] = d.Doc.Text()
}

// addSpec adds a type, constant or variable. Its comment stands above it, at the
// end of its line, or above its group.
func (a *api) addSpec(spec ast.Spec, group string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() {
				a.names = append(a.names, id.Name)
				a.docs[id.Name] = s.Doc.Text() + s.Comment.Text() + group
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		doc := s.Doc.Text() + s.Comment.Text() + group
		a.names = append(a.names, s.Name.Name)
		a.docs[s.Name.Name] = doc
		switch typ := s.Type.(type) {
		case *ast.StructType:
			a.addFields(s.Name.Name, typ.Fields.List)
		case *ast.InterfaceType:
			a.addFields(s.Name.Name, typ.Methods.List)
		}
	}
}

// addFields adds the fields of a struct or the methods of an interface.
func (a *api) addFields(owner string, fields []*ast.Field) {
	for _, f := range fields {
		for _, id := range f.Names {
			if id.IsExported() {
				a.docs[owner+"."+id.Name] = f.Doc.Text() + f.Comment.Text()
			}
		}
	}
}

func TestTheAPIIsSmall(t *testing.T) {
	if names := readAPI(t).names; len(names) > maxNames || len(names) < 20 {
		t.Errorf("%d exported names, want at most %d: %s", len(names), maxNames, strings.Join(names, " "))
	}
}

// ADR 0005 has the bound.
func TestTheBoundOfNamesIsDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/adr/0005-where-the-api-differs-from-its-sheet.md")
	check(t, err)
	if want := fmt.Sprintf("raised it to %d.", maxNames); !strings.Contains(string(text), want) {
		t.Errorf("ADR 0005 lacks %q", want)
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	for name, doc := range readAPI(t).docs {
		if strings.TrimSpace(doc) == "" {
			t.Errorf("%s has no comment", name)
		}
	}
}
