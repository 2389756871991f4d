package docs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// TestReferenceGo compares docs/reference/go-api.md with the code; -update rewrites
// it.
func TestReferenceGo(t *testing.T) {
	code := readSource(t)
	all := make([]*Package, 0, len(code.Packages))
	for _, p := range code.Packages {
		if p.Name != "main" && len(p.Names) > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Package) int { return cmp.Compare(a.Dir, b.Dir) })
	var b strings.Builder
	b.WriteString("# Go API\n\nEvery exported name of every public package, with the first sentence of its " +
		"comment. `go doc` has the rest, such as " +
		"`go doc github.com/zeroae/zae-limiter-go.Request`. `make docs` generates this page.\n\n| package | " +
		"|\n|---|---|\n")
	for _, p := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", p.importPath(), Anchor("package "+p.Name), Cell(p.Synopsis))
	}
	for _, p := range all {
		fmt.Fprintf(&b, "\n## package %s\n\n`import \"%s\"`\n\n| name | kind | |\n|---|---|---|\n", p.Name,
			p.importPath())
		for _, n := range p.Names {
			if n.Kind != "field" || strings.Contains(n.Name, "Options.") {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", n.Name, n.Kind, Cell(n.Synopsis))
			}
		}
	}
	golden.Check(t, root+"/docs/reference/go-api.md", b.String())
}

// importPath returns the path by which programs import the package.
func (p *Package) importPath() string {
	const module = "github.com/zeroae/zae-limiter-go"
	if p.Dir == "." {
		return module
	}
	return module + "/" + p.Dir
}
