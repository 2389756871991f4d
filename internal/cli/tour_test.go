package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// TestTour runs the commands of docs/tour.md and compares their output; -update
// writes it into the page.
func TestTour(t *testing.T) { runPage(t, "tour.md", 30) }

// TestTourOfLimits runs the commands of docs/limits.md.
func TestTourOfLimits(t *testing.T) { runPage(t, "limits.md", 6) }

// runPage runs the commands of a page and compares their output. The page has at
// least so many commands.
func runPage(t *testing.T, name string, atLeast int) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	page := filepath.Join(docsFolder, name)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shell := newTourist(t)
	var out strings.Builder
	inside, ran := false, 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
			out.WriteString(line)
		case !inside:
			out.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			ran++
			out.WriteString(line + shell.run(strings.TrimSpace(line[2:])))
		} // old output is dropped
	}
	if ran < atLeast {
		t.Errorf("only %d commands were found in %s", ran, page)
	}
	if *golden.Update {
		if err := os.WriteFile(page, []byte(timeless(out.String())), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(timeless(string(text)), timeless(out.String())); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", page, diff)
	}
}

// tourist is a shell in an empty folder.
type tourist struct {
	t      *testing.T
	folder string
	env    []string
}

func newTourist(t *testing.T) *tourist {
	t.Helper()
	folder := t.TempDir()
	clock, err := slow(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME=", "NO_COLOR=1", "ZAEL_STACK=", "ZAEL_NAMESPACE=", slowClock+"="+clock)
	return &tourist{t, folder, env}
}

// run runs a command line, which must succeed, and returns its output.
func (s *tourist) run(line string) string {
	s.t.Helper()
	if setting, ok := strings.CutPrefix(line, "export "); ok {
		s.env = append(s.env, setting)
		return ""
	}
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = s.folder, s.env
	if !strings.Contains(line, "|") || strings.Contains(line, "||") { // printed to a terminal
		cmd.Env = append(cmd.Env, forceTerminal+"=80")
	}
	if strings.Contains(line, "$(") {
		cmd.Env = s.env
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// timeless replaces random IDs and the time of creation.
func timeless(text string) string {
	text = regexp.MustCompile(`ID [A-Za-z0-9_-]{11}`).ReplaceAllString(text, "ID Xq3vT9aBc2Y")
	return steady(text)
}
