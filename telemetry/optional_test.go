package telemetry_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// optional holds, for each optional interface of a repository, a function that
// reports whether a wrapper has it, and whether Optional finds it.
var optional = map[string]func(limiter.Repository) (has, found bool){
	"BucketPager":         probe[limiter.BucketPager],
	"ConfigLister":        probe[limiter.ConfigLister],
	"ManagedChecker":      probe[limiter.ManagedChecker],
	"ManagedStore":        probe[limiter.ManagedStore],
	"NamespaceIdentifier": probe[limiter.NamespaceIdentifier],
	"ReadBudgeter":        probe[limiter.ReadBudgeter],
	"StatisticsReporter":  probe[limiter.StatisticsReporter],
}

func probe[T any](repo limiter.Repository) (has, found bool) {
	_, has = repo.(T)
	_, found = limiter.Optional[T](repo)
	return has, found
}

// declared returns the interfaces of a folder that their comments call optional.
func declared(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		check(t, err)
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, spec := range decl.Specs {
				named := spec.(*ast.TypeSpec)
				if _, isInterface := named.Type.(*ast.InterfaceType); isInterface &&
					strings.Contains(decl.Doc.Text(), "optional interface of") {
					names = append(names, named.Name.Name)
				}
			}
		}
	}
	return names
}

func TestEveryOptionalInterfaceIsForwarded(t *testing.T) {
	names := slices.Concat(declared(t, ".."), declared(t, "../manifest"))
	slices.Sort(names)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(optional)), names); diff != "" {
		t.Fatalf("add the interface to the table, and its methods to telemetry and escrow: %s", diff)
	}
	store := newMemory(t)
	for name, probe := range optional {
		_, want := probe(store)
		for wrapper, repo := range map[string]limiter.Repository{
			"telemetry": newRig(t, store, nil).Repository, "escrow": escrow.New(store, nil),
			"both": newRig(t, escrow.New(store, nil), nil).Repository,
		} {
			if has, found := probe(repo); !has || found != want {
				t.Errorf("%s: %s has the methods: %v, is found: %v, in the store: %v", name, wrapper, has, found, want)
			}
		}
	}
}

// withoutOptional is a store that has no optional interface.
type withoutOptional struct{ limiter.Repository }

func TestAWrapperDoesNotInventInterfaces(t *testing.T) {
	store := withoutOptional{newMemory(t)}
	inEscrow := newRig(t, escrow.New(store, nil), nil)
	for name, probe := range optional {
		for _, r := range []*rig{newRig(t, store, nil), inEscrow} {
			if _, found := probe(r.Repository); found {
				t.Errorf("%s is found", name)
			}
		}
	}
	observed, err := telemetry.New(store, nil)
	check(t, err)
	if _, _, _, err := observed.Managed(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if id := observed.NamespaceID(); id != "" {
		t.Error(id)
	}
	for s := range observed.Statistics() {
		t.Error(s.Name)
	}
}

// TestOnlyTheAPIIsImported checks that programs choose their SDK.
func TestOnlyTheAPIIsImported(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	check(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		check(t, err)
		for _, imported := range file.Imports {
			for _, banned := range []string{"otel/sdk", "otel/exporters", "/contrib"} {
				if strings.Contains(imported.Path.Value, banned) {
					t.Errorf("%s imports %s", path, imported.Path.Value)
				}
			}
		}
	}
}

// TestEveryMethodIsObserved checks that no method of the port is only promoted from
// the store. OnUnavailable and LastSwitch do no I/O.
func TestEveryMethodIsObserved(t *testing.T) {
	own := []string{"OnUnavailable", "LastSwitch"}
	paths, err := filepath.Glob("*.go")
	check(t, err)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		check(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && file.Name.Name == "telemetry" {
				own = append(own, f.Name.Name)
			}
		}
	}
	port := reflect.TypeFor[limiter.Repository]()
	for method := range port.Methods() {
		if !slices.Contains(own, method.Name) {
			t.Errorf("%s is not observed", method.Name)
		}
	}
}
