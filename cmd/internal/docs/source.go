package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Source holds what the code exports, and other names in it.
type Source struct {
	Packages map[string]*Package // by name
	// Literals has environment variables, names that start with zae_limiter, and
	// tests.
	Literals map[string]bool
	// Metrics lists the names of statistics, with the prefix that telemetry adds.
	Metrics []string
}

// Package holds the exported names of a public package.
type Package struct {
	Name, Dir, Synopsis string
	Names               []Name
	byName              map[string]bool // Name, Type.Member
}

// Name is an exported name of a package: Name, or Type.Member.
type Name struct {
	Kind, Name, Synopsis string // Kind is const, var, func, type, method or field
}

// Has reports whether the package exports a name.
func (p *Package) Has(name string) bool { return p.byName[name] }

var (
	variable     = regexp.MustCompile(`\bZAEL_[A-Z][A-Z_]*[A-Z]\b`)
	metric       = regexp.MustCompile(`\bzae_limiter[._][a-z][a-z._]*[a-z]`)
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	statistic    = regexp.MustCompile(`(?:Name: |total\()"([a-z][a-z_]*\.[a-z._]+)", (?:Unit: )?"`)
)

// ReadSource reads the Go files of the module at root, without nested modules.
func ReadSource(root string) (*Source, error) {
	s := &Source{Packages: map[string]*Package{}, Literals: map[string]bool{}}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}

		rel = filepath.ToSlash(rel)
		base := filepath.Base(file)

		switch {
		case e.IsDir() && rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "docs" &&
			rel == "docs" || isModule(file)):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		case rel == "Makefile", strings.HasPrefix(rel, "scripts/"):
			text, err := os.ReadFile(file)
			s.readLiterals(string(text))
			return err
		case !strings.HasSuffix(base, ".go"):
			return nil
		}

		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}

		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			s.Literals[string(m[1])] = true
		}

		// The names of tests count, but test files export nothing.
		if strings.HasSuffix(base, "_test.go") {
			return nil
		}

		s.readLiterals(string(text))
		if strings.Contains(rel, "internal/") || strings.HasPrefix(rel, "cmd/") {
			return nil
		}

		parsed, err := parser.ParseFile(token.NewFileSet(), file, text,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		s.add(filepath.ToSlash(filepath.Dir(rel)), parsed)
		return nil
	})

	for _, p := range s.Packages {
		slices.SortFunc(p.Names, func(a, b Name) int { return strings.Compare(a.Name, b.Name) })
	}

	return s, err
}

func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.work"))
	return err == nil
}

func (s *Source) readLiterals(text string) {
	for word, pattern := range map[string]*regexp.Regexp{"ZAEL_": variable, "zae_limiter": metric} {
		// Most files have neither word, and searching for a word is much
		// quicker than matching.
		if !strings.Contains(text, word) {
			continue
		}

		for _, v := range pattern.FindAllString(text, -1) {
			s.Literals[v] = true
			// Prometheus allows no dots in a name.
			s.Literals[strings.ReplaceAll(v, ".", "_")] = true
		}
	}

	if !strings.Contains(text, "limiter.Statistic") {
		return
	}
	for _, m := range statistic.FindAllStringSubmatch(text, -1) {
		s.Metrics = append(s.Metrics, "zae_limiter."+m[1])
	}
}

// add adds the exported names of a file.
func (s *Source) add(dir string, file *ast.File) {
	pkg := s.Packages[file.Name.Name]
	if pkg == nil {
		pkg = &Package{Name: file.Name.Name, Dir: dir, byName: map[string]bool{}}
		s.Packages[file.Name.Name] = pkg
	}

	if text := synopsis(file.Doc); text != "" {
		pkg.Synopsis = text
	}

	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			pkg.addFunc(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				pkg.addSpec(d, spec)
			}
		}
	}
}

func (p *Package) addFunc(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}

	if d.Recv == nil {
		p.addName("func", d.Name.Name, d.Doc)
		return
	}

	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}

	// A receiver of a generic type has its type parameters around the name.
	switch r := receiver.(type) {
	case *ast.IndexExpr:
		receiver = r.X
	case *ast.IndexListExpr:
		receiver = r.X
	}

	if of, ok := receiver.(*ast.Ident); ok && of.IsExported() {
		p.addName("method", of.Name+"."+d.Name.Name, d.Doc)
	}
}

func (p *Package) addSpec(d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				comments := []*ast.CommentGroup{s.Doc, s.Comment}
				// The comment of a group of one describes its only name.
				if len(d.Specs) == 1 {
					comments = append(comments, d.Doc)
				}

				p.addName(d.Tok.String(), n.Name, comments...)
				if last := &p.Names[len(p.Names)-1]; last.Synopsis == "" {
					last.Synopsis = sentenceOf(d.Doc, n.Name)
				}
			}
		}

	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}

		p.addName("type", s.Name.Name, s.Doc, d.Doc)

		var members *ast.FieldList
		kind := "method"
		switch t := s.Type.(type) {
		case *ast.StructType:
			members, kind = t.Fields, "field"
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}

		for _, f := range members.List {
			for _, n := range f.Names {
				if n.IsExported() {
					p.addName(kind, s.Name.Name+"."+n.Name, f.Doc, f.Comment)
				}
			}
		}
	}
}

// addName adds a name with the first comment that there is.
func (p *Package) addName(kind, id string, comments ...*ast.CommentGroup) {
	text := ""
	for _, c := range comments {
		if text = synopsis(c); text != "" {
			break
		}
	}
	p.byName[id] = true
	p.Names = append(p.Names, Name{kind, id, text})
}

var sentence = regexp.MustCompile(`^(.+?\.)(?:\s|$)`)

// sentenceOf returns the sentence of a group's comment that starts with a name.
func sentenceOf(comment *ast.CommentGroup, name string) string {
	if comment == nil {
		return ""
	}

	text := strings.Join(strings.Fields(comment.Text()), " ")
	for text != "" {
		m := sentence.FindStringSubmatch(text)
		if m == nil {
			return ""
		}

		if strings.HasPrefix(text, name+" ") {
			return m[1]
		}
		text = strings.TrimSpace(text[len(m[1]):])
	}
	return ""
}

// synopsis returns the first sentence of a comment.
func synopsis(comment *ast.CommentGroup) string {
	if comment == nil {
		return ""
	}
	paragraph, _, _ := strings.Cut(comment.Text(), "\n\n")
	text := strings.Join(strings.Fields(paragraph), " ")
	if m := sentence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}
