package release

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// install writes the programs of an archive of this machine into a folder, and
// returns the path of zae-limiter.
func (s snapshot) install(t *testing.T, extension string, l layout) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the test runs the programs for Linux")
	}
	files := unpack(t, filepath.Join(s.dir, "zae-limiter_"+s.version+"_linux_"+runtime.GOARCH+extension))
	dir := t.TempDir()
	for _, name := range []string{l.program, l.function} {
		place(t, filepath.Join(dir, filepath.Base(name)), files[name].content)
	}
	return filepath.Join(dir, "zae-limiter")
}

func place(t *testing.T, path string, program []byte) {
	t.Helper()
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// execute runs a program without Go and without the settings of this machine, and
// returns what it prints.
func execute(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + cmd.Dir}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// TestSnapshotRuns runs the program of the archive and of each package.
func TestSnapshotRuns(t *testing.T) {
	s := openSnapshot(t)
	for extension, l := range map[string]layout{
		".tar.gz": archiveLayout("linux"), ".deb": packageLayout(".deb"), ".rpm": packageLayout(".rpm"),
	} {
		t.Run(extension, func(t *testing.T) {
			program := s.install(t, extension, l)
			if got, want := execute(t, program, "version"), "zae-limiter "+s.version+
				" ("; !strings.HasPrefix(got, want) {
				t.Errorf("version prints %q, want %q", got, want)
			}
			if got := execute(t, program, "demo", "--duration", "1s"); !strings.Contains(
				got, "Nothing was admitted beyond the limits",
			) {
				t.Errorf("demo prints\n%s", got)
			}
		})
	}
}

// TestSnapshotLambda compares the packages of functions with the output of
// lambda-export, on Linux and as on other systems, whose archives have the program
// for arm64 beside theirs.
func TestSnapshotLambda(t *testing.T) {
	s := openSnapshot(t)
	program := s.install(t, ".tar.gz", archiveLayout("linux"))
	native := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	s.checkLambda(t, program, native)

	mac := unpack(t, filepath.Join(s.dir, "zae-limiter_"+s.version+"_darwin_arm64.tar.gz"))
	place(t, filepath.Join(filepath.Dir(program), "zae-limiter-function"), mac["zae-limiter-function"].content)
	s.checkLambda(t, program, "arm64")
}

func (s snapshot) checkLambda(t *testing.T, program, architecture string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "lambda.zip")
	execute(t, program, "lambda-export", "--output", out)
	beside := filepath.Join(s.dir, "lambda", "zae-limiter-lambda_"+s.version+"_"+architecture+".zip")
	if read(t, out) != read(t, beside) {
		t.Errorf("lambda-export writes other bytes than %s", filepath.Base(beside))
	}
	files := unpack(t, beside)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"bootstrap"}) ||
		files["bootstrap"].mode.Perm() != 0o755 {
		t.Errorf("%s has %q with mode %v", filepath.Base(beside), names, files["bootstrap"].mode)
	}
}

// TestSnapshotCask checks that the cask for Homebrew has the checksum of each archive,
// and installs every man page.
func TestSnapshotCask(t *testing.T) {
	s := openSnapshot(t)
	cask := read(t, s.dir+"/homebrew/Casks/zae-limiter.rb")
	found := 0
	for line := range strings.Lines(read(t, filepath.Join(s.dir, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasSuffix(name, ".tar.gz") {
			found++
			if !strings.Contains(cask, `sha256 "`+sum+`"`) {
				t.Errorf("the cask lacks the checksum of %s", name)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d archives for macOS and Linux, want 4", found)
	}
	for _, page := range manPages(t) {
		if !strings.Contains(cask, `manpage "man/`+filepath.Base(page)+`"`) {
			t.Errorf("the cask lacks the page %s", filepath.Base(page))
		}
	}
}
