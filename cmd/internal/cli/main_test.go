package cli_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

func TestHelpOfEveryCommand(t *testing.T) {
	for _, cmd := range kit.AllCommands(tree()) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			args := strings.Fields(cmd.CommandPath() + " --help")[1:]
			var out, talk bytes.Buffer
			if code := cli.Main(args, nil, &out, &talk); code != kit.ExitDone || talk.Len() > 0 {
				t.Errorf("exit code %d, stderr %q", code, &talk)
			}
			for line := range strings.Lines(out.String()) {
				if width := tty.Width(strings.TrimSuffix(line, "\n")); width > kit.ScreenWidth {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			golden.Check(t,
				filepath.Join("testdata", "help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".txt"),
				out.String())
		})
	}
}

// The arguments name one command, so only that one is built.
func TestOnlyTheNamedCommandIsBuilt(t *testing.T) {
	for name, construct := range cli.Constructors() {
		if got := construct(kit.NewConsole(nil, io.Discard, io.Discard)).Name(); got != name {
			t.Errorf("%s builds %s", name, got)
		}
	}

	build := func(args ...string) (commands int) {
		return len(kit.AllCommands(cli.NewProgram(kit.NewConsole(nil, io.Discard, io.Discard), args)))
	}
	if got := build("version", "--json"); got != 2 {
		t.Errorf("version is built with %d commands", got-2)
	}
	for _, args := range [][]string{nil, {"help"}, {"completion", "bash"}, {"__complete", "a"}, {"ls"}, {"--version"}} {
		if got, all := build(args...), len(kit.AllCommands(tree())); got < all-1 {
			t.Errorf("%q builds %d of %d commands", args, got, all)
		}
	}
}

func BenchmarkCommands(b *testing.B) {
	for _, args := range [][]string{{"version"}, {"entity"}, nil} {
		b.Run(strings.Join(args, " "), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cli.NewProgram(kit.NewConsole(nil, io.Discard, io.Discard), args)
			}
		})
	}
}
