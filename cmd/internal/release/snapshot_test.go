package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snapshot is the folder of a release that was built and not published.
type snapshot struct {
	dir, version string
}

func openSnapshot(t *testing.T) snapshot {
	t.Helper()
	dir := os.Getenv("ZAEL_TEST_DIST")
	if dir == "" {
		t.Skip("ZAEL_TEST_DIST is not set; `make release-snapshot` sets it and runs this test")
	}
	match := regexp.MustCompile(`"version":"([^"]+)"`).FindStringSubmatch(read(t, filepath.Join(dir, "metadata.json")))
	if match == nil {
		t.Fatal("metadata.json has no version")
	}
	return snapshot{dir, match[1]}
}

// files returns the paths of everything that users download, by name.
func (s snapshot) files() map[string]string {
	files := map[string]string{}
	for _, platform := range []string{
		"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64",
	} {
		extensions := []string{".tar.gz"}
		switch {
		case strings.HasPrefix(platform, "windows"):
			extensions = []string{".zip"}
		case strings.HasPrefix(platform, "linux"):
			extensions = append(extensions, ".deb", ".rpm")
		}
		for _, extension := range extensions {
			name := "zae-limiter_" + s.version + "_" + platform + extension
			files[name] = filepath.Join(s.dir, name)
		}
	}
	for _, architecture := range []string{"arm64", "x86_64"} {
		name := "zae-limiter-lambda_" + s.version + "_" + architecture + ".zip"
		files[name] = filepath.Join(s.dir, "lambda", name)
	}
	return files
}

// TestSnapshotChecksums checks that the checksums cover every file, and nothing else.
func TestSnapshotChecksums(t *testing.T) {
	s := openSnapshot(t)
	got, want := map[string]string{}, map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(s.dir, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got[name] = sum
	}
	for name, path := range s.files() {
		sum := sha256.Sum256([]byte(read(t, path)))
		want[name] = hex.EncodeToString(sum[:])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checksums.txt (-want +got):\n%s", diff)
	}
}

// TestSnapshotArchives checks what is in every archive and package, and which
// platform its programs are for.
func TestSnapshotArchives(t *testing.T) {
	s := openSnapshot(t)
	platform := regexp.MustCompile(`_(linux|darwin|windows)_(amd64|arm64)(\.\S+)$`)
	for name, path := range s.files() {
		match := platform.FindStringSubmatch(name)
		if match == nil {
			continue // a package of functions
		}
		goos, goarch, extension := match[1], match[2], match[3]
		t.Run(name, func(t *testing.T) {
			files := unpack(t, path)
			l := archiveLayout(goos)
			if extension == ".deb" || extension == ".rpm" {
				l = packageLayout(extension)
			}
			checkNames(t, files, l)
			checkProgram(t, files[l.program], goos, goarch)
			if goos != "linux" {
				goarch = "arm64"
			}
			checkProgram(t, files[l.function], "linux", goarch)
			checkPages(t, files, l.man)
		})
	}
}

// layout says where an archive has its files.
type layout struct {
	program, function, man string
	others                 []string
}

func archiveLayout(goos string) layout {
	l := layout{"zae-limiter", "zae-limiter-function", "man", []string{
		"README.md", "LICENSE", "CHANGELOG.md", "completions/zae-limiter.bash", "completions/_zae-limiter",
		"completions/zae-limiter.fish", "completions/zae-limiter.ps1",
	}}
	if goos == "windows" {
		l.program += ".exe"
	}
	return l
}

func packageLayout(extension string) layout {
	zsh := map[string]string{
		".deb": "usr/share/zsh/vendor-completions", ".rpm": "usr/share/zsh/site-functions",
	}[extension]
	return layout{
		"usr/lib/zae-limiter/zae-limiter", "usr/lib/zae-limiter/zae-limiter-function",
		"usr/share/man/man1",
		[]string{
			"usr/bin/zae-limiter", "usr/share/bash-completion/completions/zae-limiter", zsh + "/_zae-limiter",
			"usr/share/fish/vendor_completions.d/zae-limiter.fish", "usr/share/doc/zae-limiter/copyright",
			"usr/share/doc/zae-limiter/CHANGELOG.md",
		},
	}
}

func checkNames(t *testing.T, files map[string]entry, l layout) {
	t.Helper()
	want := append([]string{l.program, l.function}, l.others...)
	for _, page := range manPages(t) {
		want = append(want, l.man+"/"+filepath.Base(page))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, file := range files {
		isProgram := name == l.program || name == l.function
		if link := file.mode&fs.ModeSymlink != 0; link {
			if name != "usr/bin/zae-limiter" || string(file.content) != "/"+l.program {
				t.Errorf("%s is a link to %s", name, file.content)
			}
		} else if executable := file.mode&0o111 == 0o111; executable != isProgram || len(file.content) == 0 {
			t.Errorf("%s has mode %v and %d bytes", name, file.mode, len(file.content))
		}
	}
}

// checkProgram checks the platform of a program, and that it is static.
func checkProgram(t *testing.T, program entry, goos, goarch string) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(program.content))
	if err != nil {
		t.Errorf("not a Go program: %v", err)
		return
	}
	got := map[string]string{}
	for _, setting := range info.Settings {
		got[setting.Key] = setting.Value
	}
	if got["GOOS"] != goos || got["GOARCH"] != goarch || got["CGO_ENABLED"] != "0" || got["-trimpath"] != "true" {
		t.Errorf("%s is built for %s/%s, CGO_ENABLED=%s, trimpath %s; want %s/%s, 0, true", info.Path, got["GOOS"],
			got["GOARCH"], got["CGO_ENABLED"], got["-trimpath"], goos, goarch)
	}
}

func manPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(root + "/docs/man/*.1")
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d man pages, %v", len(pages), err)
	}
	return pages
}

func checkPages(t *testing.T, files map[string]entry, dir string) {
	t.Helper()
	for _, page := range manPages(t) {
		if got := files[dir+"/"+filepath.Base(page)].content; string(got) != read(t, page) {
			t.Errorf("%s differs from docs/man", filepath.Base(page))
		}
	}
}
