package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/clitest"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/docs"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// Tags of blocks that a session runs.
const (
	tagRun  = "run"     // the output is compared
	tagAWS  = "run aws" // on an emulator of AWS, on which the output depends
	tagFile = "file "   // written to a file
)

// regions gives each page of the emulator a region, and so an account without the
// stacks of the others.
var regions = []string{
	"us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1",
	"eu-north-1", "ap-south-1",
	"ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-southeast-1", "ap-southeast-2", "ca-central-1",
	"sa-east-1",
}

// TestPagesRun runs the commands of the pages and compares what they print; -update
// writes it into the page. The blocks of a page are one session.
func TestPagesRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	emulators := 0
	for _, page := range allPages(t) {
		if !slices.ContainsFunc(page.Blocks, func(b docs.Block) bool { return b.Tag == tagRun || b.Tag == tagAWS }) {
			continue
		}
		session := &session{page: page}
		onAWS := slices.ContainsFunc(page.Blocks, func(b docs.Block) bool { return b.Tag == tagAWS })
		if onAWS {
			if emulators == len(regions) {
				t.Fatal("more pages run on AWS than there are regions")
			}
			session.region = regions[emulators]
			emulators++
		}
		t.Run(strings.TrimSuffix(page.Path, ".md"), func(t *testing.T) {
			session.tourist = newTourist(t)
			if onAWS {
				session.env = append(session.env, emulated(clitest.Moto.URL(t))...)
				session.env = append(session.env, "AWS_REGION="+session.region,
					"PATH="+filepath.Dir(releasedProgram(t))+":"+os.Getenv("PATH"))
			}
			session.run()
		})
	}
}

func allPages(t *testing.T) []*docs.Page {
	t.Helper()
	all, err := docs.All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// session runs the blocks of a page.
type session struct {
	*tourist
	page   *docs.Page
	region string
}

func (s *session) run() {
	s.t.Helper()
	fresh := map[int]string{}
	for _, b := range s.page.Blocks {
		switch name, isFile := strings.CutPrefix(b.Tag, tagFile); {
		case isFile:
			if err := os.WriteFile(filepath.Join(s.folder, name), []byte(b.Text), 0o600); err != nil {
				s.t.Fatal(err)
			}
		case b.Tag == tagRun:
			if text := s.block(b); text != b.Text {
				fresh[b.Line] = text
			}
		case b.Tag == tagAWS:
			for _, step := range b.Steps() {
				s.tourist.run(strings.TrimSpace(step.Command))
			}
		}
	}
	if len(fresh) == 0 || !*golden.Update {
		return
	}
	if err := os.WriteFile("../../../"+s.page.Path, []byte(s.page.Replace(fresh)), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// block runs a block and returns it with what its commands print now.
func (s *session) block(b docs.Block) string {
	s.t.Helper()
	var text strings.Builder
	for _, step := range b.Steps() {
		out := timeless(s.tourist.run(strings.TrimSpace(step.Command)))
		text.WriteString(step.Source)
		if docs.Matches(timeless(step.Output), out) {
			text.WriteString(step.Output)
			continue
		}
		text.WriteString(out)
		if !*golden.Update {
			s.t.Errorf("%s:%d: %s prints something else (-page +now), make docs rewrites it:\n%s",
				s.page.Path, b.Line+1+step.Line, strings.TrimSpace(step.Command), cmp.Diff(step.Output, out))
		}
	}
	return text.String()
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
	clock, err := clitest.Slow(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME=", "NO_COLOR=1", "ZAEL_STACK=", "ZAEL_NAMESPACE=",
		clitest.SlowClock+"="+clock)
	return &tourist{t, folder, env}
}

// run runs a command line, which must succeed, and returns its output.
func (s *tourist) run(line string) string {
	s.t.Helper()
	if setting, ok := strings.CutPrefix(line, "export "); ok {
		setting, _, _ = strings.Cut(setting, " #")
		s.env = append(s.env, strings.TrimSpace(setting))
		return ""
	}
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = s.folder, s.env
	if !strings.Contains(line, "|") || strings.Contains(line, "||") { // printed to a terminal
		cmd.Env = append(cmd.Env, kit.ForceTerminal+"=80")
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
