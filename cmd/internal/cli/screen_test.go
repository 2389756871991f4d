package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// world is a store with some data.
type world struct {
	t     *testing.T
	store string
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t, "sqlite:" + filepath.Join(t.TempDir(), "limits.db"),
		time.Date(2026, time.January, 31, 9, 0, 0, 0, time.UTC),
	}
	for line := range strings.SplitSeq(strings.TrimSpace(history), "\n") {
		if pause, ok := strings.CutPrefix(line, "sleep "); ok {
			d, err := time.ParseDuration(pause)
			if err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(d)
			continue
		}
		if out, code := w.run(80, false, line); code != kit.ExitDone && code != kit.ExitExceeded {
			t.Fatalf("%s: code %d\n%s", line, code, out)
		}
	}
	return w
}

// history fills a world with events at fixed times in the past.
const history = `
namespace register tenant-a
system set-defaults -l rpm:60 -l tpm:5000 --on-unavailable block --principal ada
resource set-defaults gpt-4 -l rpm:100 -l tpm:10000/min:15000 --principal ada
resource set-defaults claude -l tpd:1000000/day --principal ada
entity create project-1 --display-name プロジェクト --principal ada
entity create key-abc --parent project-1 --cascade --metadata owner=ada --principal ada
entity create a-key-with-a-name-that-is-far-too-long-for-any-terminal-it-may-be-shown-on-0123456789 --parent project-1 --principal ada
entity create key-b --principal arn:aws:iam::123456789012:user/bob
entity set-limits project-1 -l tpm:20000 --principal ada
acquire key-abc gpt-4 rpm=1 tpm=900
acquire a-key-with-a-name-that-is-far-too-long-for-any-terminal-it-may-be-shown-on-0123456789 gpt-4 rpm=2
sleep 1h
acquire key-abc gpt-4 rpm=3 tpm=4000
sleep 2h
acquire key-abc gpt-4 rpm=30 tpm=14000
acquire key-abc claude tpd=1234567 --limit tpd:2000000/day
sleep 1h
acquire key-abc gpt-4 rpm=20 tpm=7000
acquire key-abc gpt-4 rpm=1 tpm=100 --adjust-fd 3 -- sh -c "echo tpm=9000 >&3"
`

// run runs a command line on a terminal, or in a pipe if width is 0.
func (w *world) run(width int, coloured bool, line string) (string, int) {
	w.t.Helper()
	var out bytes.Buffer
	c := &kit.Console{
		In: strings.NewReader(""), Out: &out, Err: &out, Terminal: width > 0, Width: width,
		Style: tty.Style(coloured), ErrStyle: tty.Style(coloured), Now: func() time.Time { return w.now },
	}
	code := cli.Run(context.Background(), c, append([]string{"--store", w.store}, words(w.t, line)...))
	return out.String(), code
}

// words splits a command line like a shell, as far as these tests need.
func words(t *testing.T, line string) []string {
	t.Helper()
	var all []string
	for _, w := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		if unquoted, err := strconv.Unquote(w); err == nil {
			w = unquoted
		}
		all = append(all, w)
	}
	return all
}

// screens lists the main commands.
var screens = []string{
	"entity list",
	"entity show key-abc",
	"entity children project-1",
	"entity status key-abc",
	"entity buckets key-abc",
	"entity get-limits project-1",
	"resource list",
	"resource get-defaults gpt-4",
	"resource capacity gpt-4 tpm",
	"system get-defaults",
	"namespace list",
	"audit list -e key-b",
	"audit list --resource gpt-4",
	"usage list -e key-abc -w hourly",
	"usage summary -e key-abc",
	"usage list -e key-abc -r gpt-4 -w hourly --plot",
	"explain key-abc gpt-4",
	"explain key-abc gpt-4 rpm=1",
	"explain key-abc gpt-4 rpm=500 tpm=500",
	"acquire key-abc gpt-4 rpm=1 tpm=500",
}

func TestScreens(t *testing.T) {
	for _, width := range []int{80, 120} {
		for _, coloured := range []bool{false, true} {
			name := fmt.Sprintf("%d", width)
			if coloured {
				name += "-colour"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				var all strings.Builder
				for _, line := range screens {
					out, _ := w.run(width, coloured, line)
					checkScreen(t, line, out, width, coloured)
					fmt.Fprintf(&all, "$ zae-limiter %s\n%s\n", line, steady(out))
				}
				golden.Check(t, filepath.Join("testdata", "screens", name+".txt"), all.String())
			})
		}
	}
}

// Every command fits every terminal.
func TestNarrowScreens(t *testing.T) {
	w := newWorld(t)
	for _, width := range []int{1, 10, 40} {
		for _, line := range screens {
			out, _ := w.run(width, true, line)
			checkScreen(t, line, out, width, true)
		}
	}
}

func checkScreen(t *testing.T, line, out string, width int, coloured bool) {
	t.Helper()
	for row := range strings.Lines(out) {
		if got := tty.Width(strings.TrimSuffix(row, "\n")); got > width && !isTalk(row) {
			t.Errorf("%s: %d columns: %s", line, got, row)
		}
	}
	if got := strings.Contains(out, "\x1b["); got && !coloured {
		t.Errorf("%s has colours: %q", line, out)
	}
}

// isTalk reports whether a line is a message of stderr, which is not laid out.
func isTalk(row string) bool {
	return regexp.MustCompile(`^(zae-limiter: |\d+ (buckets?|hourly windows?)|There |(\x1b\[\d+m)?✓)`).MatchString(row)
}

// steady replaces random IDs and the time of creation.
func steady(out string) string {
	for _, m := range []struct{ from, to string }{
		{`01[0-9A-HJKMNP-TV-Z]{24}`, "01ABCDEFGHJKMNPQRSTVWXYZ01"},
		{`((?:default|tenant-a) +)[A-Za-z0-9_-]{11}( +active +)\S+ \S+`, "${1}Xq3vT9aBc2Y${2}2026-01-31 09:00:00"},
	} {
		out = regexp.MustCompile(m.from).ReplaceAllString(out, m.to)
	}
	return out
}
