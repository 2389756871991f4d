package api

import (
	"errors"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/golden"
)

const module = "github.com/zeroae/zae-limiter-go"

// removedFile lists the lines that make api took out of the other files since the
// last release.
const removedFile = "removed.txt"

// TestAPI compares the exported names of every public package with its file.
func TestAPI(t *testing.T) {
	now, then := publicAPI(t), storedAPI(t)
	if *golden.Update {
		updateFiles(t, now, then)
		return
	}
	for _, file := range slices.Sorted(maps.Keys(union(now, then))) {
		for _, line := range without(then[file], now[file]) {
			t.Errorf(
				"api/%s: the packages lack %q: this breaks callers. If you mean it, run make api and name it "+
					"in a **breaking** entry of CHANGELOG.md",
				file, line,
			)
		}
		for _, line := range without(now[file], then[file]) {
			t.Errorf("api/%s: the file lacks %q; run make api", file, line)
		}
	}
}

// updateFiles rewrites the files, and notes what they lost in removedFile.
func updateFiles(t *testing.T, now, then map[string][]string) {
	t.Helper()
	removed := readLines(t, removedFile)
	for file := range union(now, then) {
		lines := now[file]
		for _, line := range without(then[file], lines) {
			removed = append(removed, file+": "+line)
		}
		for _, line := range lines {
			removed = slices.DeleteFunc(removed, func(r string) bool { return r == file+": "+line })
		}
		writeLines(t, file, lines)
	}
	slices.Sort(removed)
	writeLines(t, removedFile, slices.Compact(removed))
}

// publicAPI reads the export data of the public packages and returns their API by
// file.
func publicAPI(t *testing.T) map[string][]string {
	t.Helper()
	exports, public := listPackages(t)
	if len(public) < 15 {
		t.Fatalf("only %d public packages: %q", len(public), public)
	}
	gc := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	api := map[string][]string{}
	for _, path := range public {
		p, err := gc.Import(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		api[fileOf(p)] = describe(p)
	}
	return api
}

// listPackages returns the files of export data by package, and the packages that
// other modules can import.
func listPackages(t *testing.T) (exports map[string]string, public []string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Name}}\t{{.Export}}", module+"/...")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports = map[string]string{}
	for line := range strings.Lines(string(output)) {
		path, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name, export, _ := strings.Cut(rest, "\t")
		exports[path] = export
		if isPublic(path, name) {
			public = append(public, path)
			noteSources(t, path)
		}
	}
	return exports, public
}

// noteSources looks at the files of a package, so that go test does not repeat a
// cached result after they changed.
func noteSources(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", strings.TrimPrefix(path, module), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s: %v", path, err)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
}

func isPublic(path, name string) bool {
	ours := path == module || strings.HasPrefix(path, module+"/")
	return ours && name != "main" && path != module+"/api" && !slices.Contains(strings.Split(path, "/"), "internal")
}

func fileOf(p *types.Package) string {
	if p.Path() == module {
		return p.Name() + ".txt"
	}
	return strings.TrimPrefix(p.Path(), module+"/") + ".txt"
}

// storedAPI returns the lines of every file.
func storedAPI(t *testing.T) map[string][]string {
	t.Helper()
	stored := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".txt" && path != removedFile {
			stored[filepath.ToSlash(path)] = readLines(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// writeLines writes a file, or removes it if there are no lines.
func writeLines(t *testing.T, file string, lines []string) {
	t.Helper()
	if len(lines) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func union(a, b map[string][]string) map[string][]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// without returns the lines that others lacks.
func without(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}
