package infra

import (
	"archive/zip"
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// program returns the headers of an executable.
func program(tb testing.TB, machine elf.Machine, segments ...elf.ProgType) []byte {
	tb.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Phoff: 64,
		Phnum: uint16(len(segments)),
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var buf bytes.Buffer
	parts := []any{header}
	for _, kind := range segments {
		parts = append(parts, elf.Prog64{Type: uint32(kind)})
	}
	for _, part := range parts {
		if err := binary.Write(&buf, binary.LittleEndian, part); err != nil {
			tb.Fatal(err)
		}
	}
	return buf.Bytes()
}

// zipped writes a zip with one file and returns its path.
func zipped(tb testing.TB, name string, mode fs.FileMode, content []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "function.zip")
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	header := &zip.FileHeader{Name: name}
	header.SetMode(mode)
	entry, err := w.CreateHeader(header)
	check(tb, err)
	_, err = entry.Write(content)
	check(tb, err)
	check(tb, w.Close())
	check(tb, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestWhatCanRunAsAFunction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content      []byte
		architecture string
		says         string
	}{
		{program(t, elf.EM_AARCH64, elf.PT_LOAD), ARM64, ""},
		{program(t, elf.EM_X86_64), X8664, ""},
		{program(t, elf.EM_X86_64), ARM64, "it is for x86_64, but the functions are for arm64"},
		{program(t, elf.EM_AARCH64), X8664, "it is for arm64, but the functions are for x86_64"},
		{program(t, elf.EM_RISCV), ARM64, "EM_RISCV"},
		{program(t, elf.EM_AARCH64, elf.PT_LOAD, elf.PT_INTERP), ARM64, "CGO_ENABLED=0"},
		{[]byte("#!/bin/sh\n"), ARM64, "not a program for Linux"},
		{nil, ARM64, "not a program for Linux"},
	} {
		err := checkProgram(c.content, c.architecture)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

func TestAProgramWithLibrariesIsNoFunction(t *testing.T) {
	t.Parallel()
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip("there is no shell to look at:", err)
	}
	content, err := os.ReadFile(path)
	check(t, err)
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil || architectureOf(f) != X8664 && architectureOf(f) != ARM64 {
		t.Skip("the shell here is for another system")
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) == 0 {
		t.Skip("the shell here is static")
	}
	if err := checkProgram(content, architectureOf(f)); err == nil {
		t.Error("it is accepted")
	}
}

func TestPackagesAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	content := program(t, elf.EM_AARCH64)
	one, err := pack(content, ARM64, "here")
	check(t, err)
	two, err := pack(bytes.Clone(content), ARM64, "there")
	check(t, err)
	if !bytes.Equal(one.Zip, two.Zip) || one.SHA256 != two.SHA256 || len(one.SHA256) != 64 {
		t.Error(one.SHA256, two.SHA256)
	}
	r, err := zip.NewReader(bytes.NewReader(one.Zip), int64(len(one.Zip)))
	check(t, err)
	if len(r.File) != 1 || r.File[0].Name != "bootstrap" || r.File[0].Mode() != 0o755 ||
		!r.File[0].Modified.Equal(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", r.File[0].FileHeader)
	}
	back, err := unzip(r.File[0])
	check(t, err)
	if !bytes.Equal(back, content) {
		t.Error("it is another program")
	}
	other, err := pack(program(t, elf.EM_X86_64), X8664, "here")
	check(t, err)
	if other.SHA256 == one.SHA256 {
		t.Error("another program has the same name")
	}
}

func TestAZipIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	path := zipped(t, "bootstrap", 0o755, program(t, elf.EM_X86_64))
	p, err := NewPackage(t.Context(), &PackageOptions{Architecture: X8664, Zip: path})
	check(t, err)
	content, err := os.ReadFile(path)
	check(t, err)
	if diff := cmp.Diff(newPackage(content, X8664, path), p); diff != "" {
		t.Error(diff)
	}
}

// The default architecture comes from the zip.
func TestDefaultArchitecture(t *testing.T) {
	t.Parallel()
	for machine, want := range map[elf.Machine]string{elf.EM_X86_64: X8664, elf.EM_AARCH64: ARM64} {
		path := zipped(t, "bootstrap", 0o755, program(t, machine))
		p, err := NewPackage(t.Context(), &PackageOptions{Zip: path})
		check(t, err)
		if p.Architecture != want || DefaultArchitecture(path) != want {
			t.Errorf("%s %s, want %s", p.Architecture, DefaultArchitecture(path), want)
		}
	}
	if got := DefaultArchitecture(""); got != ARM64 { // the code of a test would have to be built
		t.Error(got)
	}
}

func TestAZipThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	arm := program(t, elf.EM_AARCH64)
	noZip := filepath.Join(t.TempDir(), "no.zip")
	check(t, os.WriteFile(noZip, arm, 0o600))
	for path, says := range map[string]string{
		filepath.Join(t.TempDir(), "none.zip"):                        "no such file",
		noZip:                                                         "is not a zip",
		zipped(t, "bin/bootstrap", 0o755, arm):                        "no file bootstrap at its root",
		zipped(t, "bootstrap", 0o644, arm):                            "0755",
		zipped(t, "bootstrap", 0o755, []byte("#!/bin/sh\n")):          "not a program for Linux",
		zipped(t, "bootstrap", 0o755, program(t, elf.EM_X86_64)):      "it is for x86_64",
		zipped(t, "bootstrap", 0o755, program(t, 183, elf.PT_INTERP)): "CGO_ENABLED=0",
		zipped(t, "bootstrap/", 0o755|fs.ModeDir, nil):                "no file bootstrap",
	} {
		_, err := NewPackage(t.Context(), &PackageOptions{Zip: path, Architecture: ARM64})
		if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok || bad.Field != "zip" ||
			!strings.Contains(bad.Reason, says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	other := tinyModule(t)
	check(t, os.Rename(filepath.Join(other, "zae-limiter"), filepath.Join(other, "other")))
	there := toolchain{
		dir: other, env: []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64", "GOFLAGS=", "GOWORK=off"},
	}
	_, err := there.run(t.Context(), "build", "-o", "program", "./other")
	check(t, err)
	content, err := os.ReadFile(filepath.Join(other, "program"))
	check(t, err)
	if _, err := NewPackage(t.Context(), &PackageOptions{
		Zip: zipped(t, "bootstrap", 0o755, content),
	}); err == nil || !strings.Contains(err.Error(), "cmd/other, not zae-limiter") {
		t.Error(err)
	}
	_, err = NewPackage(t.Context(), &PackageOptions{Architecture: "amd64"})
	if !is[*limiter.InvalidError](err) {
		t.Error(err)
	}
}

func TestTheRunningProgramIsPackedOnlyIfItIsOurs(t *testing.T) {
	t.Parallel()
	if _, err := runningProgram(ARM64); err == nil || !strings.Contains(err.Error(), "not zae-limiter itself") {
		t.Error(err)
	}
	if _, _, err := readProgram(
		filepath.Join(t.TempDir(), "gone"), "the running program", mainPackage, ARM64,
	); err == nil {
		t.Error("it can be read")
	}
}

func TestNoPackageErrorListsAlternatives(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := NewPackage(t.Context(), nil)
	if err == nil {
		t.Fatal("there is a package")
	}
	for _, way := range []string{
		"arm64", "release", "Go", "zip", "infra.NewPackage", "not zae-limiter itself",
		"the go command is not installed",
	} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("%q does not say %q", err, way)
		}
	}
}

// tinyModule writes a small module with the path of the programs and returns its folder.
func tinyModule(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	const program = "package main\n\nimport \"" + commandModule + "/internal/cli\"\n\nfunc main() { println(cli.Version()) }\n"
	for name, content := range map[string]string{
		"go.mod":                       "module " + commandModule + "\n\ngo 1.26\n",
		"zae-limiter/main.go":          program,
		"zae-limiter-function/main.go": program,
		"internal/cli/cli.go": "package cli\n\nvar version string\n\nfunc Version() string { " +
			"return version }\n",
	} {
		path := filepath.Join(dir, name)
		check(tb, os.MkdirAll(filepath.Dir(path), 0o700))
		check(tb, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

// build compiles the program of the functions and returns its package.
func build(ctx context.Context, t toolchain, o PackageOptions) (*Package, error) {
	content, source, err := compile(ctx, t, o, functionProgram)
	if err != nil {
		return nil, err
	}
	return pack(content, o.Architecture, source)
}

func TestAPackageIsBuiltInACheckout(t *testing.T) {
	t.Parallel()
	dir := tinyModule(t)
	var hashes []string
	for _, architecture := range []string{ARM64, X8664, ARM64} {
		p, err := build(t.Context(), toolchain{dir: filepath.Join(dir, "internal")}, PackageOptions{
			Architecture: architecture, Version: "1.2.3-dev+dirty",
		})
		check(t, err)
		if !strings.Contains(p.Source, dir) || p.Architecture != architecture {
			t.Error(p.Source, p.Architecture)
		}
		if program := programIn(t, p); !bytes.Contains(program, []byte("1.2.3-dev+dirty")) ||
			checkProgram(program, architecture) != nil {
			t.Error("it is another program")
		}
		hashes = append(hashes, p.SHA256)
	}
	if hashes[0] != hashes[2] || hashes[0] == hashes[1] {
		t.Error(hashes)
	}
}

// TestZaeLimiterItselfIsPacked uses small programs with the import paths of
// zae-limiter and its functions.
func TestZaeLimiterItselfIsPacked(t *testing.T) {
	t.Parallel()
	module, o := toolchain{dir: tinyModule(t)}, PackageOptions{Architecture: X8664, Version: "devel"}
	for name, path := range map[string]string{"zae-limiter": mainPackage, functionProgram: functionPackage} {
		content, source, err := compile(t.Context(), module, o, name)
		check(t, err)
		file := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(file, content, 0o700))
		read, _, err := readProgram(file, name, path, X8664)
		check(t, err)
		if !bytes.Equal(read, content) {
			t.Error("it is another program")
		}
		p, err := pack(content, X8664, source)
		check(t, err)
		check(t, os.WriteFile(file+".zip", p.Zip, 0o600))
		if again, err := readPackage(file+".zip", X8664); err != nil || again.SHA256 != p.SHA256 {
			t.Errorf("the zip of %s: %v", name, err)
		}
		if _, _, err := readProgram(file, name, path, ARM64); err == nil ||
			!strings.Contains(err.Error(), "not suitable") {
			t.Error(err)
		}
		if _, _, err := readProgram(file, name, path+"-other", X8664); err == nil ||
			!strings.Contains(err.Error(), "not zae-limiter itself") {
			t.Error(err)
		}
	}
}

// TestProgramBeside reads the program of the functions from the folder of a
// release, and refuses another version.
func TestProgramBeside(t *testing.T) {
	t.Parallel()
	content, _, err := compile(t.Context(), toolchain{dir: tinyModule(t)},
		PackageOptions{Architecture: X8664, Version: "devel"}, functionProgram)
	check(t, err)
	dir := t.TempDir()
	info, err := buildinfo.Read(bytes.NewReader(content))
	check(t, err)
	if _, err := readBeside(dir, info, X8664); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	check(t, os.WriteFile(filepath.Join(dir, functionProgram), content, 0o700))
	read, err := readBeside(dir, info, X8664)
	check(t, err)
	if !bytes.Equal(read, content) {
		t.Error("it is another program")
	}
	newer, patched := *info, *info
	newer.Main.Version = "v9.9.9"
	patched.Settings = append(slices.Clone(info.Settings), debug.BuildSetting{Key: "vcs.revision", Value: "0123"})
	for _, running := range []*debug.BuildInfo{&newer, &patched, nil} {
		if _, err := readBeside(dir, running, X8664); err == nil ||
			!strings.Contains(err.Error(), "of another version") {
			t.Error(err)
		}
	}
	if _, err := readBeside(dir, info, ARM64); err == nil || !strings.Contains(err.Error(), "not suitable") {
		t.Error(err)
	}
}

// TestPlansAndBuilds checks that the code of the functions is built where no
// program is beside the running one, and only planned if asked.
func TestPlansAndBuilds(t *testing.T) {
	t.Parallel()
	dir := tinyModule(t)
	o := PackageOptions{Architecture: X8664, Version: "devel"}
	content, source, err := functionCode(t.Context(), toolchain{dir: dir}, o)
	check(t, err)
	if info, err := buildinfo.Read(bytes.NewReader(content)); err != nil || info.Path != functionPackage ||
		source != "built from "+dir {
		t.Error(source, err)
	}
	o.NoBuild = true
	if content, source, err = functionCode(t.Context(), toolchain{dir: dir}, o); content != nil ||
		source != "to be built from "+dir || err != nil {
		t.Error(len(content), source, err)
	}
}

// programIn returns the executable in a package.
func programIn(tb testing.TB, p *Package) []byte {
	tb.Helper()
	r, err := zip.NewReader(bytes.NewReader(p.Zip), int64(len(p.Zip)))
	check(tb, err)
	program, err := unzip(r.File[0])
	check(tb, err)
	return program
}

// newProxy returns a toolchain whose module proxy has one release of the small
// module.
func newProxy(tb testing.TB, version string) toolchain {
	tb.Helper()
	proxy, cache := tb.TempDir(), tb.TempDir()
	at := filepath.Join(proxy, commandModule, "@v")
	check(tb, os.MkdirAll(at, 0o700))
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	source := os.DirFS(tinyModule(tb))
	check(tb, fs.WalkDir(source, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		entry, err := w.Create(commandModule + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		_, err = entry.Write(content)
		return err
	}))
	check(tb, w.Close())
	for name, content := range map[string]string{
		".info": `{"Version":"` + version + `"}`, ".mod": "module " + commandModule + "\n\ngo 1.26\n", ".zip": buf.String(),
	} {
		check(tb, os.WriteFile(filepath.Join(at, version+name), []byte(content), 0o600))
	}
	return toolchain{dir: tb.TempDir(), env: []string{
		"GOPROXY=file://" + proxy, "GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOTOOLCHAIN=local",
	}}
}

func TestAPackageOfAReleaseIsBuiltFromItsModule(t *testing.T) {
	t.Parallel()
	go1 := newProxy(t, "v1.8.7")
	p, err := build(t.Context(), go1, PackageOptions{Architecture: ARM64, Version: "1.8.7"})
	check(t, err)
	if !strings.Contains(p.Source, "@v1.8.7") || !bytes.Contains(programIn(t, p), []byte("1.8.7")) {
		t.Error(p.Source)
	}
	if _, err := build(
		t.Context(), go1, PackageOptions{Architecture: ARM64, Version: "1.9.9"},
	); err == nil || !strings.Contains(err.Error(), "1.9.9") {
		t.Error(err)
	}
	for _, version := range []string{"devel", "0123456789abcdef", "1.2.3+dirty"} {
		if _, err := build(
			t.Context(), go1, PackageOptions{Architecture: ARM64, Version: version},
		); !errors.Is(err, errNoSource) {
			t.Errorf("%s: %v", version, err)
		}
	}
	go1.origin = filepath.Join(tinyModule(t), "internal")
	p, err = build(t.Context(), go1, PackageOptions{Architecture: ARM64, Version: "devel"})
	check(t, err)
	if p.Source != "built from "+filepath.Dir(go1.origin) {
		t.Error(p.Source)
	}
	go1.dir = tinyModule(t) // a release is not built from a checkout
	p, err = build(t.Context(), go1, PackageOptions{Architecture: ARM64, Version: "v1.8.7"})
	check(t, err)
	if !strings.Contains(p.Source, "@v1.8.7") {
		t.Error(p.Source)
	}
}

// build calls Building with the architecture, and its result with the error.
func TestBuildCallsBuilding(t *testing.T) {
	t.Parallel()
	dir := tinyModule(t)
	var calls []string
	o := PackageOptions{Architecture: X8664, Version: "devel", Building: func(architecture string) func(error) {
		calls = append(calls, architecture)
		return func(err error) { calls = append(calls, fmt.Sprint("ok ", err == nil)) }
	}}
	_, err := build(t.Context(), toolchain{dir: dir}, o)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, functionProgram, "main.go"), []byte("nonsense"), 0o600))
	if _, err = build(t.Context(), toolchain{dir: dir}, o); err == nil {
		t.Error("nonsense is a program")
	}
	if diff := cmp.Diff([]string{X8664, "ok true", X8664, "ok false"}, calls); diff != "" {
		t.Error(diff)
	}
}

func TestABuildThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	dir := tinyModule(t)
	check(t,
		os.WriteFile(filepath.Join(dir, functionProgram, "main.go"),
			[]byte("package main\n\nfunc main() { nonsense() }\n"), 0o600))
	_, err := build(t.Context(), toolchain{dir: dir}, PackageOptions{Architecture: ARM64, Version: "devel"})
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build(
		ctx, toolchain{dir: dir}, PackageOptions{Architecture: ARM64, Version: "1.8.7"},
	); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
